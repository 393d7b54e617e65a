/**
 * After an upgrade, the older process keeps the calls that it had: until they end, it is a media node of the newer process. The
 * newer process, and any that succeeds it, finds the older one by a note in the data directory.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isRunning } from "../kernel/data-directory/data-lock.ts";
import { writeDurably } from "../kernel/durable-file.ts";
import type { Log } from "../kernel/log.ts";
import type { ReplayRing } from "../kernel/socket/replay-ring.ts";
import type { SharedPort } from "../sfu/transport/port-sharing/port-sharing.ts";
import type { EmbeddedMedia } from "./embedded-media.ts";
import { createNodeServer, newRing, type ParticipantRecords } from "./node-server.ts";
import { serveNode } from "./node-server-http.ts";

export type OlderProcess = {
  pid: number;
  /** The name under which it is a media node. */
  name: string;
  internalUrl: string;
  secret: string;
  /** The media ports, which it shares with the newer process. */
  ports: SharedPort[];
  /** The recordings that ran at the handover and continue. Absent from earlier versions, which end them. */
  recordings?: string[];
  /** The time of the handover, in milliseconds since 1970. */
  handedOverAt: number;
};

const FOLDER = "older";

const notePath = (dataDir: string, pid: number) => join(dataDir, FOLDER, `${pid}.json`);

function note(dataDir: string, process: OlderProcess): void {
  mkdirSync(join(dataDir, FOLDER), { recursive: true, mode: 0o700 });
  writeDurably(notePath(dataDir, process.pid), JSON.stringify(process));
}

/** The older processes that are still running, newest first. */
export function olderProcesses(dataDir: string): OlderProcess[] {
  const names = readdirNow(join(dataDir, FOLDER)).filter((name) => name.endsWith(".json"));
  const noted = names.map((name) => JSON.parse(readFileSync(join(dataDir, FOLDER, name), "utf8")) as OlderProcess);
  const found = noted.filter(({ pid }) => {
    if (isRunning(pid)) return true;
    rmSync(notePath(dataDir, pid), { force: true });
    return false;
  });
  return found.sort((a, b) => b.handedOverAt - a.handedOverAt);
}

function readdirNow(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** The name under which this process continues as a media node. */
export const olderName = (name: string): string => `${name}.${process.pid}`;

export type RemainingNode = {
  /** Whether a newer process uses the node. */
  readonly connected: boolean;
  /** Whether nothing is left to do: there are no rooms, and no recorded files are being written. */
  isDone(): Promise<boolean>;
  /** Moves the rooms that are left to the newer process. */
  stop(): Promise<void>;
};

/** Keeps the events of this process's recordings from now on, until `serveRemaining` passes them on. */
export function keepRecordingEvents(media: EmbeddedMedia): KeptEvents {
  const ring = newRing();
  const stop = media.onEvent((event) => {
    if ("recordingId" in event) ring.add(JSON.stringify({ type: "event", event }));
  });
  return { ring, stop };
}

export type KeptEvents = { ring: ReplayRing; stop(): void };

type RemainingOptions = {
  dataDir: string;
  /** The name of the older process, made by `olderName`. */
  name: string;
  media: EmbeddedMedia;
  ports: SharedPort[];
  /** The nodes that write each recording, under the names that this process has for them. */
  recordings: ReadonlyMap<string, ReadonlySet<string>>;
  /** The events of these recordings since the handover began. */
  kept: KeptEvents;
  ownName: string;
  records: ParticipantRecords;
  now: number;
  log: Log;
};

/** Makes the media workers of this process available to the newer one. */
export function serveRemaining(options: RemainingOptions): RemainingNode {
  const { dataDir, name, ownName, media, ports, recordings, kept, records, now, log } = options;
  const secret = crypto.randomUUID() + crypto.randomUUID();
  const running = new Set([...recordings].flatMap(([id, nodes]) => (nodes.has(ownName) ? [id] : [])));
  media.onEvent((event) => {
    if (event.type === "recordingFileStarted") running.add(event.recordingId);
    if (event.type === "recordingEnded" || event.type === "recordingFailed") running.delete(event.recordingId);
    if (event.type === "workerCrashed") running.clear();
  });
  // There are no `links`: no other node shares the rooms, because a link needs ports that belong to one process. Recordings are
  // written to the path that the newer process names, because both use the same disk.
  kept.stop();
  const node = createNodeServer(media, log, { records, missed: kept.ring });
  const http = serveNode(node, { hostname: "127.0.0.1", port: 0, secret, problem: () => null });
  const internalUrl = `http://127.0.0.1:${http.server.port}`;
  const found = { pid: process.pid, name, internalUrl, secret, ports, handedOverAt: now };
  note(dataDir, { ...found, recordings: [...recordings.keys()] });
  return {
    get connected() {
      return node.connected;
    },
    async isDone() {
      const rooms = await media.rooms();
      return rooms.length === 0 && running.size === 0;
    },
    async stop() {
      rmSync(notePath(dataDir, process.pid), { force: true });
      node.announceClosing();
      await http.stop(0);
    },
  };
}
