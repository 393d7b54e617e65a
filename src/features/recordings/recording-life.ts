import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { MediaNodes } from "../../nodes/nodes.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { RecordedFile } from "../../protocol/media/recording.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import type { Hls } from "./hls/hls.ts";
import { createOpenFiles } from "./open-files.ts";
import type { Places } from "./places/places.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { RecordingFolder } from "./recording-folder.ts";
import { createRecordKeeping, type FilePlace } from "./recording-record.ts";
import { createTimeline } from "./timeline.ts";

/** A node that does not say that it is done has had its time; the same for its files on their way here. */
const FINISH_WITHIN_MS = 10_000;

type RecordingEvent = Extract<MediaEvent, { recordingId: string }>;

/** A recording that runs. */
type Running = {
  id: string;
  roomId: string;
  audioOnly: boolean;
  startedAt: number;
  automatic: boolean;
  /** The node that writes it; null while nobody is in the room. */
  serverName: string | null;
  /** Somebody waits for the node to be done. */
  finished: (() => void) | null;
};

export type RecordingDeps = {
  store: RecordingStore;
  folder: RecordingFolder;
  places: Pick<Places, "fetch" | "moveOn" | "nodeSeen">;
  rooms: Pick<RoomService, "markRecording">;
  nodes: Pick<MediaNodes, "find" | "onEvent">;
  /** Throws when there is no room for more of the project's recordings. */
  requireRoom: (projectId: string) => Promise<void>;
  hls: Hls;
  isLiveStream: (roomId: string) => boolean;
};

/** How a recording ends, and what is written down with its end. */
type End = { status: Exclude<RecordingStatus, "RECORDING">; error: string | null; with?: (unit: Unit) => void };
const HERE: FilePlace = { location: "disk", serverName: null };
const COMPLETE: End = { status: "READY", error: null };

/** Keeps recordings running: on whichever node the room is, for as long as it should be, and what comes of it on record. */
export function createRecordingLife(runtime: Runtime, deps: RecordingDeps) {
  const { store, folder, places, rooms, nodes, requireRoom, hls, isLiveStream } = deps;
  const { bus, log, now, timers, write } = runtime;
  const byRoom = new Map<string, Running>();
  /** Recordings of an earlier process, by room: a node may still be writing them. */
  const interrupted = new Map<string, string>();
  const openFiles = createOpenFiles();
  const timeline = createTimeline(runtime, store);
  const records = createRecordKeeping(runtime, { store, rooms, places, hls, openFiles, timeline });

  nodes.onEvent((serverName, event) => {
    if ("recordingId" in event) heard(serverName, event);
    else if ("roomId" in event) {
      const running = byRoom.get(event.roomId);
      if (running) timeline.media(running, event);
    } else if (event.type === "workerCrashed") {
      for (const { roomId } of event.rooms) {
        const running = byRoom.get(roomId);
        if (running?.serverName === serverName) detach(running);
      }
    } else if (event.type === "roomsFound") endInterrupted(serverName, event.rooms);
  });
  bus.on("rtcServerSeen", ({ name }) => places.nodeSeen(name));
  bus.on("rtcConnection", ["started", "left"], connection);

  function connection(fact: RtcConnectionEvent): void {
    const running = byRoom.get(fact.roomId);
    if (!running) return;
    timeline.connection(running, fact);
    if (fact.type === "started") attach(running, fact.serverName);
  }

  function attach(running: Running, serverName: string | null): void {
    const node = serverName === null || running.serverName !== null ? null : nodes.find(serverName);
    if (!node || serverName === null) return;
    running.serverName = serverName;
    const { id, roomId, startedAt, audioOnly } = running;
    const parts = isLiveStream(roomId);
    const about = { roomId, recordingId: id, directory: folder.of(id), startedAtMs: startedAt, audioOnly };
    const request = { ...about, parts, feed: parts && hls.transcodes };
    node.startRecording(request).catch((err: Error) => {
      log.error({ err, recordingId: id }, "recording could not be started on its media node");
      fail(running, err.message);
    });
  }

  function detach(running: Running | undefined): void {
    if (!running) return;
    running.serverName = null;
    openFiles.allEnded(running.id);
    running.finished?.();
  }

  function heard(serverName: string, event: RecordingEvent): void {
    const running = byRoom.get(event.roomId);
    if (running?.id !== event.recordingId) heardOfEnded(serverName, event);
    if (running?.id !== event.recordingId || running.serverName !== serverName) return;
    const place: FilePlace = nodes.find(serverName)?.remote ? { location: "node", serverName } : HERE;
    const isBegun = event.type !== "recordingFileEnded";
    const save = (files: readonly RecordedFile[]) =>
      write((unit) => records.saveFiles(unit, running.id, files, place, isBegun));
    switch (event.type) {
      case "recordingPart":
      case "recordingFeed":
      case "recordingNotStreamable":
        hls.heard(event);
        break;
      case "recordingFileStarted":
        openFiles.begun(running.id, event.file.fileId, event.file.identity);
        records.keep(
          save([event.file]).then((saved) => {
            if (!saved.has(event.file.fileId)) openFiles.ended(event.file.fileId);
          }),
        );
        break;
      case "recordingFileEnded":
        hls.heard(event);
        records.keep(save([event.file]).finally(() => openFiles.ended(event.file.fileId)));
        break;
      case "recordingProgress":
        records.keep(save(event.files).then(() => endWithoutRoom(running)));
        break;
      case "recordingSlow":
        log.warn({ recordingId: running.id }, "recording leaves frames out: the disk is too slow");
        break;
      // Stopped, or everybody has left; who comes next is written again.
      case "recordingEnded":
        detach(running);
        break;
      case "recordingFailed":
        log.error({ recordingId: running.id, reason: event.reason }, "recording cannot be written");
        fail(running, event.reason);
        break;
    }
  }

  /** What a node still says of a recording that an earlier process began. */
  function heardOfEnded(serverName: string, event: RecordingEvent): void {
    if (event.type === "recordingEnded") places.nodeSeen(serverName);
    if (event.type !== "recordingFileEnded") return;
    const { recordingId, file } = event;
    const place: FilePlace = { location: "node", serverName };
    records.keep(write((unit) => records.saveFiles(unit, recordingId, [file], place, false)));
  }

  /** The rooms of a node that went on without us: what it was writing for us has ended on record. */
  function endInterrupted(serverName: string, found: readonly { roomId: string }[]): void {
    for (const { roomId } of found) {
      const recordingId = interrupted.get(roomId);
      if (recordingId === undefined || !mayHaveWritten(serverName, recordingId)) continue;
      const stopped = nodes.find(serverName)?.stopRecording({ roomId, recordingId });
      stopped?.catch((err) => log.warn({ err, recordingId }, "media node goes on with a recording that has ended"));
    }
  }

  /** One that none of its files is on did not write it. */
  function mayHaveWritten(serverName: string, recordingId: string): boolean {
    const files = store.files(recordingId);
    return files.length === 0 || files.some((file) => file.serverName === serverName);
  }

  /** The quota of the project and the reserve of the disk hold while it runs, too: what was written by then is kept. */
  async function endWithoutRoom(running: Running): Promise<void> {
    const row = store.get(running.id);
    if (!row || running.finished) return;
    try {
      await requireRoom(row.projectId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      log.warn({ recordingId: row.id, reason: error.message }, "recording ends: there is no room for more of it");
      await stop(running, { status: "FAILED", error: error.message });
    }
  }

  function fail(running: Running, reason: string): void {
    if (byRoom.get(running.roomId) !== running) return;
    byRoom.delete(running.roomId);
    running.finished?.();
    records.keep(write((unit) => records.end(unit, running.id, "FAILED", now(), reason)));
  }

  async function stop(running: Running, how: End = COMPLETE): Promise<void> {
    const { id, roomId, serverName } = running;
    const node = serverName === null ? null : nodes.find(serverName);
    if (node) {
      const done = Promise.withResolvers<void>();
      running.finished = done.resolve;
      const cancel = timers.after(FINISH_WITHIN_MS, done.resolve);
      await node.stopRecording({ roomId, recordingId: id }).catch((err: Error) => {
        log.warn({ err, recordingId: id }, "media node did not stop the recording");
        done.resolve();
      });
      await done.promise;
      cancel();
    }
    if (byRoom.get(roomId) === running) byRoom.delete(roomId);
    await here(id);
    const lost = how.status === "READY" ? lostNodeOf(id) : null;
    await write((unit) => {
      if (lost === null) records.end(unit, id, how.status, now(), how.error);
      else records.end(unit, id, "INTERRUPTED", now(), `The media node ${lost} was lost with what it had written.`);
      how.with?.(unit);
    });
  }

  /** What a node on another machine has written is here, or takes too long to wait for. */
  async function here(recordingId: string): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = timers.after(FINISH_WITHIN_MS, late.resolve);
    const fetched = places.fetch(recordingId);
    fetched.catch((err) => log.warn({ err, recordingId }, "recorded files are still on their media node"));
    await Promise.race([fetched.catch(() => {}), late.promise]);
    cancel();
  }

  /** The node that has some of it and cannot be reached; null when there is none. */
  function lostNodeOf(recordingId: string): string | null {
    const away = store.files(recordingId).find(({ location, serverName }) => {
      const remote = serverName === null ? undefined : nodes.find(serverName)?.remote;
      return location === "node" && !remote?.connected;
    });
    return away?.serverName ?? null;
  }

  return {
    runningIn: (roomId: string): { id: string; automatic: boolean } | undefined => byRoom.get(roomId),

    /** The row is new and being written by `unit`; packets are written once it is on disk. */
    begin(unit: Unit, row: RecordingRow, serverName: string | null): void {
      store.insert(unit, row);
      rooms.markRecording(unit, row.roomId, true);
      bus.publish(unit, "recordingChanged", { roomId: row.roomId, active: true });
      records.tell(unit, row, "recording.started");
      unit.afterCommit(() => {
        const { id, roomId, audioOnly, startedAt, automatic } = row;
        const running: Running = { id, roomId, audioOnly, startedAt, automatic, serverName: null, finished: null };
        byRoom.set(roomId, running);
        if (isLiveStream(roomId)) hls.begin(row);
        attach(running, serverName);
      });
    },

    /** Resolves when it has ended and its files are complete. */
    async stop(recordingId: string, also?: (unit: Unit) => void): Promise<void> {
      const running = [...byRoom.values()].find(({ id }) => id === recordingId);
      if (running) await stop(running, { ...COMPLETE, with: also });
    },

    stopAll: async (): Promise<void> => void (await Promise.all([...byRoom.values()].map((one) => stop(one)))),

    /** Those that began before: they are as long as they may be. */
    olderThan: (at: number): string[] =>
      [...byRoom.values()].filter(({ startedAt }) => startedAt <= at).map(({ id }) => id),

    /** Resolves when nothing more of somebody who has left is being written. */
    async settled({ projectId, environment }: Tenant, identity: string): Promise<void> {
      for (const { id, roomId, serverName } of [...byRoom.values()]) {
        const row = store.get(id);
        if (row?.projectId !== projectId || row.environment !== environment) continue;
        // Its answer comes after everything that the node has said of them before.
        if (serverName !== null)
          await nodes
            .find(serverName)
            ?.room({ roomId })
            .catch(() => null);
        // A node that never says that a file is complete holds nobody up for longer.
        const late = Promise.withResolvers<void>();
        const cancel = timers.after(FINISH_WITHIN_MS, late.resolve);
        await Promise.race([openFiles.settled(id, identity), late.promise]);
        cancel();
      }
      await runtime.writer.drain();
    },

    /** After a crash: what was being written ends where it was last seen, and plays that far. */
    async recover(): Promise<void> {
      for (const row of store.running()) {
        await hls.remove(row.id);
        interrupted.set(row.roomId, row.id);
        const files: RecordingFileRow[] = [];
        for (const file of store.files(row.id)) {
          if (file.location === "disk")
            files.push({ ...file, bytes: (await folder.bytes(row.id, file.fileName)) ?? 0 });
        }
        await write((unit) => {
          for (const file of files) store.saveFile(unit, file);
          records.end(unit, row.id, "INTERRUPTED", row.lastSeenAt, "The server stopped while it was recording.");
        });
      }
    },
  };
}
