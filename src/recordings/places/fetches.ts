import { open, rename, rm, stat } from "node:fs/promises";
import type { MediaNodes } from "../../media/nodes.ts";
import type { NodeFiles } from "../../protocol/media/node-files.ts";
import type { Runtime } from "../../runtime.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import type { PlacesStore } from "./places.store.ts";

const READ_AT_ONCE = 50;

type Deps = {
  store: RecordingStore;
  places: PlacesStore;
  folder: RecordingFolder;
  nodes: Pick<MediaNodes, "find">;
};

/**
 * Brings here what media nodes on other machines have written, and has them forget it. A node that is away keeps its files
 * until it is back; a file that came half goes on where it was.
 */
export function createFetches({ config, log, write }: Runtime, { store, places, folder, nodes }: Deps) {
  const stopping = new AbortController();
  let running: Promise<void> | null = null;
  let asked = false;
  /** By file: two who want the same one wait for it together. */
  const underWay = new Map<string, Promise<void>>();

  const filesOf = (serverName: string | null): NodeFiles | null => {
    const remote = serverName === null ? undefined : nodes.find(serverName)?.remote;
    return remote?.connected ? remote.files : null;
  };

  async function fetchAll(): Promise<void> {
    for (let after = { recordingId: "", id: "" }; ; ) {
      const page = places.settledAt("node", after, READ_AT_ONCE);
      for (const file of page) {
        if (stopping.signal.aborted) return;
        after = file;
        await fetchFile(file);
      }
      if (page.length < READ_AT_ONCE) break;
    }
    await removeLeftovers();
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
    const have = (await stat(partPath).catch(() => null))?.size ?? 0;
    const found = await from.read({ recordingId, fileName }, have, stopping.signal);
    if (found === "busy") return;
    if (found === null) return lose(file);
    if ((await folder.freeBytes()) < found.size - have + config.RECORDING_MIN_FREE_BYTES) {
      await found.body.cancel();
      throw new Error("there is too little space left on the disk");
    }
    const part = await open(partPath, "a", 0o600);
    try {
      for await (const chunk of found.body) await part.writeFile(chunk);
      await part.datasync();
    } finally {
      await part.close();
    }
    const size = (await stat(partPath)).size;
    if (size !== found.size) {
      if (size > found.size) await rm(partPath, { force: true });
      throw new Error(`${size} of ${found.size} bytes have come`);
    }
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

  /** The node does not have it, or gave it a name that is none: whatever lies here under that name is not it. */
  async function lose(file: RecordingFileRow): Promise<void> {
    const { recordingId, fileName, serverName } = file;
    log.error({ recordingId, serverName }, "recording: media node lost a file");
    await folder.removeFile(recordingId, fileName);
    await write((unit) => places.move(unit, file, "lost", 0));
  }

  async function removeLeftovers(): Promise<void> {
    for (const leftover of places.leftovers()) {
      const from = filesOf(leftover.serverName);
      if (!from || stopping.signal.aborted) continue;
      try {
        await from.remove(leftover);
        await write((unit) => places.removeLeftover(unit, leftover));
      } catch (err) {
        log.warn({ err, serverName: leftover.serverName }, "a media node still has a file that nobody wants");
      }
    }
  }

  return {
    /** One at a time; asked again meanwhile, it looks again. */
    run(): Promise<void> {
      if (stopping.signal.aborted) return Promise.resolve();
      asked = true;
      running ??= (async () => {
        try {
          while (asked && !stopping.signal.aborted) {
            asked = false;
            await fetchAll();
          }
        } finally {
          running = null;
        }
      })();
      return running;
    },

    /** Those of one recording, also before it has ended. */
    async of(recordingId: string): Promise<void> {
      const onNode = store.allFiles(recordingId).filter(({ location }) => location === "node");
      for (const file of onNode) await fetchFile(file);
      if (onNode.length > 0) await removeLeftovers();
    },

    /** What was fetched, deleted or erased goes from the nodes that can be reached. */
    removeLeftovers,

    async stop(): Promise<void> {
      stopping.abort();
      await running?.catch(() => {});
    },
  };
}
