import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../kernel/tenant.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { RecordedFile } from "../../protocol/media/recording.ts";
import { MediaError, type MediaEvent } from "../../protocol/media-node.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import type { Hls } from "./hls/hls.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import { createRecordingChanges, type WrittenBy } from "./recording-changes.ts";
import type { RecordingFolder } from "./recording-folder.ts";
import type { StorageLocations } from "./storage-locations/storage-locations.ts";
import { createTimeline } from "./timeline.ts";

/** The time that a node has to finish a recording, and that the download of its files may take. */
const FINISH_WITHIN_MS = 10_000;

type RecordingEvent = Extract<MediaEvent, { recordingId: string }>;

type ActiveRecording = {
  id: string;
  roomId: string;
  audioOnly: boolean;
  startedAt: number;
  automatic: boolean;
  /** The nodes that write the recording, each the tracks of its own participants; none while the room is empty. */
  servers: Set<string>;
  /** Set while a stop waits for the nodes to finish. */
  finished: (() => void) | null;
  /** Cancels the stop after RECORDING_MAX_MINUTES. */
  cancelLimit: () => void;
};

type ActiveRecordingDeps = {
  store: RecordingStore;
  folder: RecordingFolder;
  locations: Pick<StorageLocations, "download" | "moveFilesInBackground" | "nodeSeen">;
  rooms: Pick<RoomService, "markRecording">;
  nodes: Pick<MediaNodes, "find" | "onEvent">;
  /** Throws when the project or the disk has no space for more recordings. */
  requireSpace: (projectId: string) => Promise<void>;
  hls: Hls;
  isLiveStream: (roomId: string) => boolean;
  /** The node that knows the speakers of the room. */
  mainServerOf: (roomId: string) => string | undefined;
};

/** The names of the nodes that write each recording, by its id. */
export type HandedOverRecordings = ReadonlyMap<string, ReadonlySet<string>>;

/** How a recording ends; `also` runs in the same transaction. */
type End = { status: Exclude<RecordingStatus, "RECORDING">; error: string | null; also?: (unit: Unit) => void };
const THIS_SERVER: WrittenBy = { location: "disk", serverName: null };
const COMPLETE: End = { status: "READY", error: null };

/** Keeps recordings running on the media node of their room, and saves what the node reports. */
export function createActiveRecordings(runtime: Runtime, deps: ActiveRecordingDeps) {
  const { store, folder, locations, rooms, nodes, requireSpace, hls, isLiveStream, mainServerOf } = deps;
  const { bus, config, log, now, timers, write } = runtime;
  const byRoom = new Map<string, ActiveRecording>();
  /** Recordings of an earlier process, by room: a node may still be writing them. */
  const interrupted = new Map<string, string>();
  let isHandedOver = false;
  const openFiles = createOpenFiles();
  const timeline = createTimeline(runtime, store);
  const changes = createRecordingChanges(runtime, {
    store,
    rooms,
    timeline,
    onEnded(id) {
      hls.end(id);
      openFiles.closeAll(id);
    },
    onSaved: locations.moveFilesInBackground,
  });

  nodes.onEvent((serverName, event) => {
    if ("recordingId" in event) handleEvent(serverName, event);
    else if ("roomId" in event) {
      const recording = byRoom.get(event.roomId);
      if (event.type === "speakersChanged" && serverName !== mainServerOf(event.roomId)) return;
      if (recording) timeline.addMediaEvent(recording, event);
    } else if (event.type === "workerCrashed") {
      for (const { roomId, remains, recordingEnds } of event.rooms) {
        if (remains && !recordingEnds) continue;
        const recording = byRoom.get(roomId);
        if (recording) detach(recording, serverName);
      }
    } else if (event.type === "roomsFound") {
      for (const { roomId } of event.rooms) {
        const recording = byRoom.get(roomId);
        if (recording) attach(recording, serverName);
      }
      stopInterrupted(serverName, event.rooms);
    }
  });
  bus.on("rtcServerSeen", ({ name }) => locations.nodeSeen(name));
  bus.on("rtcConnection", ["started", "left"], handleConnection);

  function handleConnection(event: RtcConnectionEvent): void {
    const recording = byRoom.get(event.roomId);
    if (!recording) return;
    timeline.addConnectionEvent(recording, event);
    if (event.type === "started") attach(recording, event.serverName);
  }

  function attach(recording: ActiveRecording, serverName: string | null): void {
    const node = serverName === null || recording.servers.has(serverName) ? null : nodes.find(serverName);
    if (!node || serverName === null) return;
    recording.servers.add(serverName);
    const { id, roomId, startedAt, audioOnly } = recording;
    const parts = isLiveStream(roomId);
    const continues = hls.takeContinued(id);
    const request = { roomId, recordingId: id, directory: folder.of(id), startedAtMs: startedAt, audioOnly };
    node.startRecording({ ...request, parts, feed: parts && hls.transcodes, continues }).catch((err: Error) => {
      log.error({ err, recordingId: id }, "recordings: media node did not start a recording");
      fail(recording, err.message);
    });
  }

  function detach(recording: ActiveRecording, serverName: string): void {
    if (!recording.servers.delete(serverName)) return;
    openFiles.closeAll(recording.id, serverName);
    if (recording.servers.size === 0) recording.finished?.();
  }

  function handleEvent(serverName: string, event: RecordingEvent): void {
    if (isHandedOver) return;
    const recording = byRoom.get(event.roomId);
    if (recording?.id !== event.recordingId) handleLateEvent(serverName, event);
    if (recording?.id !== event.recordingId || !recording.servers.has(serverName)) return;
    const { sharesDisk } = nodes.find(serverName)?.remote ?? { sharesDisk: true };
    const writtenBy: WrittenBy = sharesDisk ? THIS_SERVER : { location: "node", serverName };
    const mayBeNew = event.type !== "recordingFileEnded";
    const saveFiles = (files: readonly RecordedFile[]) =>
      write((unit) => changes.saveFiles(unit, recording.id, files, writtenBy, mayBeNew));
    switch (event.type) {
      case "recordingPart":
      case "recordingFeed":
      case "recordingNotStreamable":
        hls.handleEvent(event);
        break;
      case "recordingFileStarted": {
        const { fileId, identity } = event.file;
        openFiles.open(fileId, { recordingId: recording.id, serverName, identity });
        changes.logFailure(
          saveFiles([event.file]).then((saved) => {
            if (!saved.has(fileId)) openFiles.close(fileId);
          }),
        );
        break;
      }
      case "recordingFileEnded":
        hls.handleEvent(event);
        changes.logFailure(saveFiles([event.file]).finally(() => openFiles.close(event.file.fileId)));
        break;
      case "recordingProgress":
        changes.logFailure(saveFiles(event.files).then(() => stopWithoutSpace(recording)));
        break;
      case "recordingTrackOmitted":
        changes.logFailure(write((unit) => store.countEncryptedTrack(unit, recording.id)));
        break;
      case "recordingSlow":
        log.warn({ recordingId: recording.id }, "recordings: disk too slow, frames dropped");
        break;
      // The node also ends a recording when its room is empty; the next participant starts it again.
      case "recordingEnded":
        detach(recording, serverName);
        break;
      case "recordingFailed":
        log.error({ recordingId: recording.id, reason: event.reason }, "recordings: media node failed to record");
        fail(recording, event.reason);
        break;
    }
  }

  /** Handles an event about a recording that an earlier process began. */
  function handleLateEvent(serverName: string, event: RecordingEvent): void {
    if (event.type === "recordingEnded") locations.nodeSeen(serverName);
    if (event.type !== "recordingFileEnded") return;
    const { recordingId, file } = event;
    const writtenBy: WrittenBy = { location: "node", serverName };
    changes.logFailure(write((unit) => changes.saveFiles(unit, recordingId, [file], writtenBy, false)));
  }

  /** Stops recordings that a node continued while this server was down; in the database they have ended. */
  function stopInterrupted(serverName: string, found: readonly { roomId: string }[]): void {
    for (const { roomId } of found) {
      const recordingId = interrupted.get(roomId);
      if (recordingId === undefined || !mayHaveWritten(serverName, recordingId)) continue;
      const stopped = nodes.find(serverName)?.stopRecording({ roomId, recordingId });
      stopped?.catch((err) =>
        log.warn({ err, recordingId }, "recordings: media node did not stop an interrupted recording"),
      );
    }
  }

  /** A node that has none of the recording's files did not write it. */
  function mayHaveWritten(serverName: string, recordingId: string): boolean {
    const files = store.files(recordingId);
    return files.length === 0 || files.some((file) => file.serverName === serverName);
  }

  /** Stops a recording when the quota of its project or the reserve of the disk is reached, and keeps its files. */
  async function stopWithoutSpace(recording: ActiveRecording): Promise<void> {
    const row = store.get(recording.id);
    if (!row || recording.finished) return;
    try {
      await requireSpace(row.projectId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      log.warn({ recordingId: row.id, reason: error.message }, "recordings: stopped for lack of space");
      await stop(recording, { status: "FAILED", error: error.message });
    }
  }

  function fail(recording: ActiveRecording, reason: string): void {
    if (byRoom.get(recording.roomId) !== recording) return;
    byRoom.delete(recording.roomId);
    recording.cancelLimit();
    recording.finished?.();
    changes.logFailure(write((unit) => changes.end(unit, recording.id, "FAILED", now(), reason)));
  }

  /** Resolves with the promise, or after FINISH_WITHIN_MS. */
  async function withinLimit(done: Promise<void>): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = timers.after(FINISH_WITHIN_MS, late.resolve);
    await Promise.race([done, late.promise]);
    cancel();
  }

  async function stop(recording: ActiveRecording, how: End = COMPLETE): Promise<void> {
    const { id, roomId, servers } = recording;
    recording.cancelLimit();
    if (servers.size > 0) {
      const finished = Promise.withResolvers<void>();
      recording.finished = finished.resolve;
      const requests = [...servers].map(async (serverName) => {
        try {
          const node = nodes.find(serverName);
          if (node) await node.stopRecording({ roomId, recordingId: id });
          else detach(recording, serverName);
        } catch (err) {
          // The node closes the room, completes the files and reports them, as it does when the room is empty.
          if (err instanceof MediaError && err.code === "ROOM_NOT_FOUND") return;
          log.warn({ err, serverName, recordingId: id }, "recordings: media node did not stop the recording");
          detach(recording, serverName);
        }
      });
      await Promise.all([...requests, withinLimit(finished.promise)]);
    }
    if (byRoom.get(roomId) === recording) byRoom.delete(roomId);
    const downloaded = locations.download(id);
    await withinLimit(
      downloaded.catch((err) =>
        log.warn({ err, recordingId: id }, "recordings: files not downloaded at the end of a recording"),
      ),
    );
    const lost = how.status === "READY" ? lostNodeOf(id) : null;
    await write((unit) => {
      if (lost === null) changes.end(unit, id, how.status, now(), how.error);
      else changes.end(unit, id, "INTERRUPTED", now(), `The media node ${lost} was lost with what it had written.`);
      how.also?.(unit);
    });
  }

  /** The disconnected node that has some of the files; null when there is none. */
  function lostNodeOf(recordingId: string): string | null {
    const away = store.files(recordingId).find(({ location, serverName }) => {
      const remote = serverName === null ? undefined : nodes.find(serverName)?.remote;
      return location === "node" && !remote?.connected;
    });
    return away?.serverName ?? null;
  }

  function activate({ id, roomId, audioOnly, startedAt, automatic }: RecordingRow): ActiveRecording {
    const limitMs = startedAt + config.RECORDING_MAX_MINUTES * 60_000 - now();
    const recording: ActiveRecording = {
      id,
      roomId,
      audioOnly,
      startedAt,
      automatic,
      servers: new Set(),
      finished: null,
      cancelLimit: timers.after(Math.max(0, limitMs), () => changes.logFailure(stop(recording))),
    };
    byRoom.set(roomId, recording);
    return recording;
  }

  /** Ends a recording at the time of its last event. */
  async function interrupt(row: RecordingRow): Promise<void> {
    const files: RecordingFileRow[] = [];
    for (const file of store.files(row.id)) {
      if (file.location === "disk") files.push({ ...file, bytes: (await folder.bytes(row.id, file.fileName)) ?? 0 });
    }
    await write((unit) => {
      for (const file of files) store.saveFile(unit, file);
      changes.end(unit, row.id, "INTERRUPTED", row.lastSeenAt, "The server stopped while it was recording.");
    });
  }

  return {
    inRoom: (roomId: string): { id: string; automatic: boolean } | undefined => byRoom.get(roomId),

    /** Inserts a new recording; the node starts once the row is on disk. */
    begin(unit: Unit, row: RecordingRow, serverNames: readonly string[]): void {
      store.insert(unit, row);
      rooms.markRecording(unit, row.roomId, true);
      bus.publish(unit, "recordingChanged", { roomId: row.roomId, active: true });
      changes.publish(unit, row, "recording.started");
      unit.afterCommit(() => {
        const recording = activate(row);
        if (isLiveStream(row.roomId)) hls.begin(row);
        for (const serverName of serverNames) attach(recording, serverName);
      });
    },

    /** Resolves when the recording has ended and its files are complete. */
    async stop(recordingId: string, also?: (unit: Unit) => void): Promise<void> {
      const recording = [...byRoom.values()].find(({ id }) => id === recordingId);
      if (recording) await stop(recording, { ...COMPLETE, also });
    },

    stopAll: async (): Promise<void> => void (await Promise.all([...byRoom.values()].map((one) => stop(one)))),

    /** Resolves when no file of a participant who has left is being written. */
    async settled(tenant: Tenant, identity: string): Promise<void> {
      for (const { id, roomId, servers } of [...byRoom.values()]) {
        const row = store.get(id);
        if (!row || !sameTenant(row, tenant)) continue;
        // A node sends its response after all earlier events.
        await Promise.all(
          [...servers].map((name) =>
            nodes
              .find(name)
              ?.room({ roomId })
              .catch(() => null),
          ),
        );
        await withinLimit(openFiles.closed(id, identity));
      }
      await runtime.writer.drain();
    },

    /**
     * Leaves the recordings to a newer process of this server while the media nodes continue to write them. Returns the
     * nodes of each recording, by its id.
     */
    async handOver(ownServer: string): Promise<HandedOverRecordings> {
      isHandedOver = true;
      const nodesOf = new Map([...byRoom.values()].map(({ id, servers }) => [id, servers]));
      const ids = [...nodesOf.keys()];
      for (const { cancelLimit } of byRoom.values()) cancelLimit();
      byRoom.clear();
      // Other nodes keep nothing of what they make until the newer process has reached them.
      const isOwn = (servers: ReadonlySet<string>) => servers.size === 1 && servers.has(ownServer);
      await Promise.all([...nodesOf].map(([id, servers]) => hls.handOver(id, isOwn(servers))));
      await write((unit) => {
        for (const id of ids) timeline.flush(unit, id);
      });
      return nodesOf;
    },

    /**
     * Ends recordings that a crash interrupted. While older processes of this server run, all recordings may be theirs:
     * `settle` ends the others.
     */
    async recover(hasOlder: boolean): Promise<void> {
      for (const row of store.running()) {
        if (hasOlder) {
          activate(row);
          if (isLiveStream(row.roomId)) await hls.resume(row);
        } else {
          await hls.remove(row.id);
          interrupted.set(row.roomId, row.id);
          await interrupt(row);
        }
      }
    },

    /**
     * Called after `recover`, when the rooms of older processes were found: ends the recordings that none of them writes,
     * but not those that were handed over, whose rooms are empty for now.
     */
    async settle(handedOver: readonly string[], isLive: (roomId: string) => boolean): Promise<void> {
      for (const recording of [...byRoom.values()]) {
        const { id, roomId, servers, automatic } = recording;
        const row = store.get(id);
        if (servers.size > 0 || !row) continue;
        if (!handedOver.includes(id)) {
          recording.cancelLimit();
          byRoom.delete(roomId);
          await interrupt(row);
        } else if (automatic && !isLive(roomId)) await stop(recording);
      }
    },
  };
}

type OpenFile = { recordingId: string; serverName: string; identity: string };

/** The files that are being written, by participant. */
function createOpenFiles() {
  const files = new Map<string, OpenFile>();
  let waiting: (() => void)[] = [];

  function closeWhere(matches: (fileId: string, file: OpenFile) => boolean): void {
    for (const [fileId, file] of files) if (matches(fileId, file)) files.delete(fileId);
    const resolves = waiting;
    waiting = [];
    for (const resolve of resolves) resolve();
  }

  return {
    open: (fileId: string, file: OpenFile): void => void files.set(fileId, file),
    close: (fileId: string): void => closeWhere((id) => id === fileId),
    /** Called for a recording that has ended, at all or on one node. */
    closeAll: (recordingId: string, serverName?: string): void =>
      closeWhere((_, file) => file.recordingId === recordingId && file.serverName === (serverName ?? file.serverName)),

    /** Resolves when no file of the participant is open. */
    async closed(recordingId: string, identity: string): Promise<void> {
      const isOpen = () =>
        [...files.values()].some((file) => file.recordingId === recordingId && file.identity === identity);
      while (isOpen()) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}
