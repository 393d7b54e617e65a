import { open, rename, rm, stat } from "node:fs/promises";
import type { Runtime } from "../../../kernel/runtime.ts";
import { SerialRun } from "../../../kernel/scheduling/serial-run.ts";
import type { MediaNodes } from "../../../nodes/media-nodes.ts";
import type { NodeFile, NodeFiles } from "../../../protocol/media/node-files.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import type { StorageLocationStore } from "./storage-locations.store.ts";

const FILES_PER_PAGE = 50;
/** A download that receives nothing for this long is aborted and retried later. */
const STALLED_MS = 15_000;

type Deps = {
  store: RecordingStore;
  locations: StorageLocationStore;
  folder: RecordingFolder;
  nodes: Pick<MediaNodes, "find">;
};

/**
 * Downloads files from the media nodes that wrote them, and tells the nodes to remove them. A disconnected node keeps
 * its files until it reconnects; an interrupted download continues at its last byte. Downloads from different nodes are
 * independent.
 */
export function createNodeDownloads(runtime: Runtime, { store, locations, folder, nodes }: Deps) {
  const { config, log, timers, write } = runtime;
  const stopping = new AbortController();
  /** The passes that run, by node. */
  const passes = new Map<string, SerialRun>();
  /** Downloads by file: two callers that need the same file share one download. */
  const underWay = new Map<string, Promise<void>>();

  const filesOf = (serverName: string | null): NodeFiles | null => {
    const remote = serverName === null ? undefined : nodes.find(serverName)?.remote;
    return remote?.connected ? remote.files : null;
  };

  async function downloadAll(serverName: string): Promise<void> {
    if (stopping.signal.aborted) return;
    for (let after = { recordingId: "", id: "" }; ; ) {
      const page = locations.endedOnNode(serverName, after, FILES_PER_PAGE);
      for (const file of page) {
        if (stopping.signal.aborted) return;
        after = file;
        await download(file);
      }
      if (page.length < FILES_PER_PAGE) break;
    }
    await removeLeftovers(serverName);
  }

  function runPass(serverName: string): Promise<void> {
    const pass = passes.get(serverName) ?? new SerialRun(() => downloadAll(serverName));
    passes.set(serverName, pass);
    return pass.run().finally(() => {
      if (!pass.running) passes.delete(serverName);
    });
  }

  function download(file: RecordingFileRow): Promise<void> {
    const from = filesOf(file.serverName);
    if (!from) return Promise.resolve();
    const downloaded =
      underWay.get(file.id) ??
      downloadOne(from, file)
        .catch((err) =>
          log.warn({ err, recordingId: file.recordingId }, "recordings: download of a file from media node failed"),
        )
        .finally(() => underWay.delete(file.id));
    underWay.set(file.id, downloaded);
    return downloaded;
  }

  async function downloadOne(from: NodeFiles, file: RecordingFileRow): Promise<void> {
    const { recordingId, fileName, serverName } = file;
    if (!folder.contains(recordingId, fileName)) return markLost(file);
    const path = folder.file(recordingId, fileName);
    const partPath = `${path}.part`;
    await folder.make(recordingId);
    const result = await readInto(partPath, from, { recordingId, fileName });
    if (result === "busy") return;
    if (result === null) return markLost(file);
    await rename(partPath, path);
    const bytes = (await folder.bytes(recordingId, fileName)) ?? 0;
    const isWanted = await write((unit) => {
      if (serverName !== null) locations.addLeftover(unit, { serverName, recordingId, fileName });
      if (!store.file(file.id)) return false;
      locations.move(unit, file, "disk", bytes);
      return true;
    });
    if (!isWanted) await rm(path, { force: true });
  }

  /** Throws unless exactly the announced number of bytes is received. */
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
      if (size !== found.size) throw new Error(`${size} of ${found.size} bytes arrived`);
      return "whole";
    } finally {
      cancelStall();
    }
  }

  /**
   * The node does not have the file, or reported an invalid name; a local file of that name is not the recorded file.
   */
  async function markLost(file: RecordingFileRow): Promise<void> {
    const { recordingId, fileName, serverName } = file;
    log.error({ recordingId, serverName }, "recordings: media node does not have the file any more");
    await folder.removeFile(recordingId, fileName);
    await write((unit) => locations.move(unit, file, "lost", 0));
  }

  /** After one failure the remaining files of the node wait for the next pass. */
  async function removeLeftovers(serverName: string): Promise<void> {
    const from = filesOf(serverName);
    if (!from) return;
    for (const leftover of locations.leftoversOn(serverName)) {
      if (stopping.signal.aborted) return;
      try {
        await from.remove(leftover);
        await write((unit) => locations.removeLeftover(unit, leftover));
      } catch (err) {
        log.warn({ err, serverName }, "recordings: file not removed from media node");
        return;
      }
    }
  }

  return {
    /** Resolves when no more files can be downloaded now. */
    async run(): Promise<void> {
      if (stopping.signal.aborted) return;
      await Promise.all(locations.nodesWithFiles().map(runPass));
    },

    /** Downloads the files of one recording, even before it has ended. */
    async ofRecording(recordingId: string): Promise<void> {
      const onNode = store.allFiles(recordingId).filter(({ location }) => location === "node");
      for (const file of onNode) await download(file);
      const servers = new Set(onNode.flatMap(({ serverName }) => serverName ?? []));
      await Promise.all([...servers].map(removeLeftovers));
    },

    /** Removes downloaded and deleted files from the nodes that are connected. */
    removeLeftovers: async (): Promise<void> =>
      void (await Promise.all(locations.nodesWithFiles().map(removeLeftovers))),

    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all([...passes.values()].map(({ running }) => running?.catch(() => {})));
    },
  };
}
