import { open, rename, rm, stat } from "node:fs/promises";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { MediaNodes } from "../../../nodes/nodes.ts";
import type { NodeFile, NodeFiles } from "../../../protocol/media/node-files.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import type { PlacesStore } from "./places.store.ts";

const READ_AT_ONCE = 50;
/** A node that sends nothing for so long is asked again later. */
const STALLED_MS = 15_000;

type Deps = {
  store: RecordingStore;
  places: PlacesStore;
  folder: RecordingFolder;
  nodes: Pick<MediaNodes, "find">;
};

/**
 * Brings here what media nodes on other machines have written, and has them forget it. A node that is away keeps its files
 * until it is back; a file that came half goes on where it was. Nodes do not wait for one another.
 */
export function createFetches({ config, log, timers, write }: Runtime, { store, places, folder, nodes }: Deps) {
  const stopping = new AbortController();
  /** Of each node one at a time; asked again meanwhile, it looks again. */
  const lanes = new Map<string, { again: boolean; done: Promise<void> }>();
  /** By file: two who want the same one wait for it together. */
  const underWay = new Map<string, Promise<void>>();

  const filesOf = (serverName: string | null): NodeFiles | null => {
    const remote = serverName === null ? undefined : nodes.find(serverName)?.remote;
    return remote?.connected ? remote.files : null;
  };

  async function fetchAll(serverName: string): Promise<void> {
    for (let after = { recordingId: "", id: "" }; ; ) {
      const page = places.settledOn(serverName, after, READ_AT_ONCE);
      for (const file of page) {
        if (stopping.signal.aborted) return;
        after = file;
        await fetchFile(file);
      }
      if (page.length < READ_AT_ONCE) break;
    }
    await removeLeftovers(serverName);
  }

  function lane(serverName: string): Promise<void> {
    const known = lanes.get(serverName);
    if (known) {
      known.again = true;
      return known.done;
    }
    const made = { again: true, done: Promise.resolve() };
    lanes.set(serverName, made);
    made.done = (async () => {
      try {
        while (made.again && !stopping.signal.aborted) {
          made.again = false;
          await fetchAll(serverName);
        }
      } finally {
        lanes.delete(serverName);
      }
    })();
    return made.done;
  }

  function fetchFile(file: RecordingFileRow): Promise<void> {
    const from = filesOf(file.serverName);
    if (!from) return Promise.resolve();
    const fetched =
      underWay.get(file.id) ??
      fetchOne(from, file)
        .catch((err) => log.warn({ err, recordingId: file.recordingId }, "a recorded file is still on its media node"))
        .finally(() => underWay.delete(file.id));
    underWay.set(file.id, fetched);
    return fetched;
  }

  async function fetchOne(from: NodeFiles, file: RecordingFileRow): Promise<void> {
    const { recordingId, fileName, serverName } = file;
    if (!folder.contains(recordingId, fileName)) return lose(file);
    const path = folder.file(recordingId, fileName);
    const partPath = `${path}.part`;
    await folder.make(recordingId);
    const found = await readInto(partPath, from, { recordingId, fileName });
    if (found === "busy") return;
    if (found === null) return lose(file);
    await rename(partPath, path);
    const bytes = (await folder.bytes(recordingId, fileName)) ?? 0;
    const isWanted = await write((unit) => {
      if (serverName !== null) places.addLeftover(unit, { serverName, recordingId, fileName });
      if (!store.file(file.id)) return false;
      places.move(unit, file, "disk", bytes);
      return true;
    });
    if (!isWanted) await rm(path, { force: true });
  }

  /** Throws unless all of it has come, and not a byte more. */
  async function readInto(partPath: string, from: NodeFiles, file: NodeFile): Promise<"busy" | "whole" | null> {
    const stalled = new AbortController();
    const stall = () => stalled.abort(new Error("the media node sends nothing"));
    const have = (await stat(partPath).catch(() => null))?.size ?? 0;
    let cancelStall = timers.after(STALLED_MS, stall);
    try {
      const found = await from.read(file, have, AbortSignal.any([stopping.signal, stalled.signal]));
      if (found === "busy" || found === null) return found;
      if ((await folder.freeBytes()) < found.size - have + config.RECORDING_MIN_FREE_BYTES) {
        await found.body.cancel();
        throw new Error("there is too little space left on the disk");
      }
      const part = await open(partPath, "a", 0o600);
      let size = have;
      try {
        for await (const chunk of found.body) {
          cancelStall();
          size += chunk.byteLength;
          if (size > found.size) break;
          await part.writeFile(chunk);
          cancelStall = timers.after(STALLED_MS, stall);
        }
        await part.datasync();
      } finally {
        await part.close();
      }
      if (size > found.size) await rm(partPath, { force: true });
      if (size !== found.size) throw new Error(`${size} of ${found.size} bytes have come`);
      return "whole";
    } finally {
      cancelStall();
    }
  }

  /** The node does not have it, or gave it a name that is none: whatever lies here under that name is not it. */
  async function lose(file: RecordingFileRow): Promise<void> {
    const { recordingId, fileName, serverName } = file;
    log.error({ recordingId, serverName }, "recording: media node lost a file");
    await folder.removeFile(recordingId, fileName);
    await write((unit) => places.move(unit, file, "lost", 0));
  }

  /** One that fails waits with those behind it on the same node. */
  async function removeLeftovers(serverName: string): Promise<void> {
    const from = filesOf(serverName);
    if (!from) return;
    for (const leftover of places.leftoversOn(serverName)) {
      if (stopping.signal.aborted) return;
      try {
        await from.remove(leftover);
        await write((unit) => places.removeLeftover(unit, leftover));
      } catch (err) {
        log.warn({ err, serverName }, "a media node still has a file that nobody wants");
        return;
      }
    }
  }

  return {
    /** Resolves when nothing more can be had now. */
    async run(): Promise<void> {
      if (stopping.signal.aborted) return;
      await Promise.all(places.nodesWithFiles().map(lane));
    },

    /** Those of one recording, also before it has ended. */
    async of(recordingId: string): Promise<void> {
      const onNode = store.allFiles(recordingId).filter(({ location }) => location === "node");
      for (const file of onNode) await fetchFile(file);
      const servers = new Set(onNode.flatMap(({ serverName }) => serverName ?? []));
      await Promise.all([...servers].map(removeLeftovers));
    },

    /** What was fetched, deleted or erased goes from the nodes that can be reached. */
    removeLeftovers: async (): Promise<void> => void (await Promise.all(places.nodesWithFiles().map(removeLeftovers))),

    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all([...lanes.values()].map(({ done }) => done.catch(() => {})));
    },
  };
}
