import { mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { codeOrNameOf } from "../../kernel/net/checked-fetch.ts";
import { shareProblem } from "../../kernel/project-share.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import { every } from "../../kernel/time/timers.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { findFont } from "../recordings/composition/captions.ts";
import { findFfmpeg } from "../recordings/composition/ffmpeg.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RoomRow } from "../rooms/room.table.ts";
import { loopbackAllowed, targetRule } from "../webhooks/url-check.ts";
import type { Encoding } from "./compositor/messages.ts";
import type { Layout } from "./compositor/scene.ts";
import { egressStore } from "./egress.store.ts";
import type { EgressOutput, EgressRow, EgressStatus } from "./egress.table.ts";
import {
  MAX_OUTPUTS,
  type OutputRequest,
  type PathWords,
  type PlannedOutput,
  parseStreamUrl,
  planOutput,
  withoutKey,
} from "./output-plan.ts";
import { createRoomWatch, type EgressSource } from "./room-watch.ts";
import { type EgressEnd, RunningEgress } from "./running-egress.ts";
import { locationIn, UploadRefused, uploadFolder } from "./uploads.ts";

type EgressRequest = {
  source: EgressSource;
  layout: Layout;
  encoding: Encoding;
  outputs: OutputRequest[];
  words: PathWords;
  /** The request in the form that its gateway shows again, without secrets. */
  request: string;
};

type Deps = {
  rooms: Pick<RoomService, "byId">;
  nodes: Pick<MediaNodes, "find" | "onEvent">;
  liveRooms: Pick<LiveRooms, "participants" | "serversOf">;
};

export type Egresses = ReturnType<typeof createEgresses>;

const LISTED = 1_000;
const KEPT_DAYS = 30;
const DISK_EVERY_MS = 10_000;
const FILES_FULL =
  "The files of the project's live compositions have reached EGRESS_MAX_BYTES_PER_PROJECT. Remove some.";
/** One message for refused, silent and absent hosts, so that nobody can scan a network with it. */
const UNREACHABLE = "It cannot be reached. Addresses of private networks need EGRESS_ALLOW_PRIVATE.";
export const STOPPED = "The server stopped while it was composing.";

/** `spareBytes` is how much the project's files could grow when the egress began. */
type Reservation = { projectId: string; outputs: readonly PlannedOutput[]; spareBytes: number };

/** Live compositions of rooms, and where they are sent. */
export function createEgresses(runtime: Runtime, { rooms, nodes, liveRooms }: Deps) {
  const { bus, config, ids, log, lookup, metrics, now, timers, write } = runtime;
  const store = egressStore(runtime.db);
  const root = resolve(config.EGRESS_DIR ?? join(config.DATA_DIR, "egress"));
  const running = new Map<string, RunningEgress>();
  const endings = new Set<Promise<void>>();
  /** Egresses that are starting, running or completing their files. Each takes disk space, a core and a connection. */
  const reservations = new Map<string, Reservation>();
  const watch = createRoomWatch(runtime, { nodes, liveRooms });
  let isEnding = false;
  metrics.gaugeOf("stoa_egresses_running", "Live compositions at this moment", () => running.size);
  const failures = metrics.counter("stoa_egresses_ended_total", "Ended live compositions by status", ["status"]);

  /** A development key must not overwrite the files of production. */
  const folderOf = ({ projectId, environment }: Tenant) => join(root, projectId, environment.toLowerCase());
  const uploadsOf = (id: string) => join(root, ".uploads", id);

  bus.on("roomClosed", ({ roomId }) => {
    for (const one of running.values()) if (one.roomId === roomId) one.stop();
  });
  // A room that is being composed counts as recorded, even after its recording has ended.
  bus.on("recordingChanged", ({ roomId, active }) => {
    if (!active && isComposed(roomId)) bus.emit("recordingChanged", { roomId, active: true });
  });

  function isComposed(roomId: string): boolean {
    return [...running.values()].some((one) => one.roomId === roomId && one.status !== "STARTING");
  }

  function requireRunning({ id }: EgressRow): RunningEgress {
    const egress = running.get(id);
    if (!egress || egress.status === "ENDING") throw new ApiError("SVC_CONFLICT", "The egress has ended.");
    return egress;
  }

  const current = (row: EgressRow): EgressRow => store.get(row.id) ?? row;

  function requirePossible(room: RoomRow, { outputs }: EgressRequest): string {
    if (isEnding) throw new ApiError("SVC_SHUTTING_DOWN");
    const ffmpeg = findFfmpeg();
    if (ffmpeg === null)
      throw new ApiError("SVC_COMPOSER_UNAVAILABLE", "Live compositions need ffmpeg, which is not installed here.");
    if (room.encrypted)
      throw new ApiError("SVC_ROOM_ENCRYPTED", "The room is end-to-end encrypted; it cannot be composed.");
    if (outputs.length === 0) throw invalid("outputs", "is empty: name a file, segments or a stream");
    if (outputs.length > MAX_OUTPUTS) throw invalid("outputs", `has at most ${MAX_OUTPUTS} entries`);
    const limits = { ofServer: config.EGRESS_MAX_RUNNING, ofProject: config.EGRESS_MAX_PER_PROJECT };
    const full = shareProblem(room.projectId, reservations.values(), { ...limits, what: "live compositions" });
    if (full !== null) throw new ApiError("SVC_RATE_LIMITED", full);
    return ffmpeg;
  }

  /** How much the files of a project may still grow. */
  async function spareBytesOf(projectId: string): Promise<number> {
    const { EGRESS_MAX_BYTES_PER_PROJECT: most } = config;
    if (most === 0) return Number.POSITIVE_INFINITY;
    let taken = 0;
    const entries = await readdir(join(root, projectId), { recursive: true, withFileTypes: true }).catch(() => []);
    for (const entry of entries) if (entry.isFile()) taken += await sizeOf(join(entry.parentPath, entry.name));
    if (taken >= most) throw new ApiError("SVC_STORAGE_FULL", FILES_FULL);
    return most - taken;
  }

  async function freeBytes(): Promise<number> {
    await mkdir(root, { recursive: true, mode: 0o700 });
    const { bavail, bsize } = await statfs(root);
    return bavail * bsize;
  }

  async function requireSpace(): Promise<void> {
    if ((await freeBytes()) < config.RECORDING_MIN_FREE_BYTES)
      throw new ApiError("SVC_STORAGE_FULL", "There is too little space left on the disk to compose.");
  }

  const ruleOf = (environment: Environment) =>
    targetRule(environment, config.EGRESS_ALLOW_PRIVATE, loopbackAllowed(config));
  type Rule = ReturnType<typeof ruleOf>;

  const contextOf = (row: Tenant & { id: string }, words: PathWords) => ({
    folder: folderOf(row),
    uploads: uploadsOf(row.id),
    words,
    lookup,
    allows: ruleOf(row.environment),
    newId: ids.uuid,
  });

  /** Two compositions that write the same file would destroy it. */
  function requireUnusedPaths(planned: readonly PlannedOutput[]): void {
    const pathsOf = (outputs: readonly PlannedOutput[]) =>
      outputs.flatMap(({ target }) =>
        target.kind === "file" ? [target.path] : target.kind === "segments" ? [target.prefix, target.playlist] : [],
      );
    const used = new Set([...reservations.values()].flatMap(({ outputs }) => pathsOf(outputs)));
    for (const path of pathsOf(planned)) {
      if (used.has(path)) throw new ApiError("SVC_CONFLICT", `Another egress writes ${basename(path)}.`);
      used.add(path);
    }
  }

  type AuditAction = "egress.started" | "egress.updated" | "egress.stopped";
  function audit(unit: Unit, author: Author, action: AuditAction, row: EgressRow): void {
    const { projectId, environment, id: resourceId, roomId, outputs } = row;
    const metadata = { roomId, outputs: outputs.map(({ name }) => name) };
    bus.publish(unit, "audit", { ...author, environment, action, projectId, resourceId, metadata, at: now() });
  }

  const outputsOf = (egress: RunningEgress): EgressOutput[] => egress.outputs.map(({ output }) => ({ ...output }));

  function save(id: string, change: Partial<EgressRow>, type: "updated" | "ended"): Promise<void> {
    return write((unit) => {
      store.update(unit, id, { ...change, updatedAt: now() });
      const row = store.get(id);
      if (row) bus.publish(unit, "egressChanged", { type, row });
    });
  }

  const saveInBackground = (id: string, change: Partial<EgressRow>) =>
    save(id, change, "updated").catch((err) => log.error({ err, egressId: id }, "egress: state not saved"));

  function changed(id: string, egress: RunningEgress, status: EgressStatus): void {
    if (status === "ACTIVE") bus.emit("recordingChanged", { roomId: egress.roomId, active: true });
    void saveInBackground(id, { status, outputs: outputsOf(egress) });
  }

  /** Uploads files that belong in a bucket, inspects the files, and saves the end of the egress. */
  async function conclude(id: string, egress: RunningEgress, { status, error }: EgressEnd): Promise<void> {
    running.delete(id);
    const { roomId } = egress;
    if (!isComposed(roomId)) bus.emit("recordingChanged", { roomId, active: rooms.byId(roomId)?.recording ?? false });
    let problem = error;
    const rule = ruleOf(store.get(id)?.environment ?? "PRODUCTION");
    for (const planned of egress.outputs) {
      try {
        await complete(planned, join(uploadsOf(id), planned.output.id), rule);
      } catch (err) {
        const refusal = err instanceof UploadRefused ? err.message : null;
        // Only the code of a failed request is logged, because the error's message repeats the signed URL.
        const reason = refusal ?? codeOrNameOf(err);
        log.warn({ egressId: id, reason }, "egress: file not uploaded");
        planned.output.status = "FAILED";
        planned.output.error = `The bucket did not take a file. ${refusal ?? UNREACHABLE}`;
        problem ??= planned.output.error;
      }
    }
    await rm(uploadsOf(id), { recursive: true, force: true });
    const files = egress.outputs.filter(({ output }) => output.kind !== "stream");
    const lost = files.length > 0 && files.every(({ output }) => output.status === "FAILED");
    const final = lost && status === "COMPLETE" ? "FAILED" : status;
    failures.inc({ status: final.toLowerCase() });
    const outputs = outputsOf(egress);
    // A stream reports its own reason for failing.
    const told = outputs.find(({ kind, error }) => error !== null && (final !== "COMPLETE" || kind !== "stream"));
    const first = problem ?? told?.error ?? null;
    await save(id, { status: final, error: first, outputs, endedAt: now() }, "ended");
  }

  async function complete({ target, output, bucket }: PlannedOutput, folder: string, rule: Rule): Promise<void> {
    if (target.kind === "stream") {
      if (output.status === "STARTING") output.status = "FINISHED";
      return;
    }
    // The process was killed before it could report more than the start of this output.
    if (output.endedAt === null && output.startedAt !== null) output.durationMs = now() - output.startedAt;
    output.endedAt ??= now();
    await measure(target, output);
    if (output.bytes === 0) {
      output.status = "FAILED";
      output.error ??= "Nothing was written.";
      return;
    }
    const path = target.kind === "file" ? output.name : output.playlist;
    if (bucket === null) output.location = target.kind === "file" ? target.path : target.playlist;
    else {
      await uploadFolder(runtime, folder, bucket, rule);
      output.location = locationIn(bucket, path);
    }
    if (output.status !== "FAILED") output.status = "FINISHED";
  }

  async function measure(target: PlannedOutput["target"], output: EgressOutput): Promise<void> {
    if (target.kind === "file") output.bytes = await sizeOf(target.path);
    if (target.kind !== "segments") return;
    const names = await readdir(dirname(target.prefix)).catch(() => [] as string[]);
    const segments = names.filter((name) => name.startsWith(`${basename(target.prefix)}_`) && name.endsWith(".ts"));
    const sizes = await Promise.all(segments.map((name) => sizeOf(join(dirname(target.prefix), name))));
    output.segments = segments.length;
    output.bytes = sizes.reduce((sum, size) => sum + size, 0);
  }

  async function makeFolders(planned: readonly PlannedOutput[]): Promise<void> {
    for (const { target } of planned) {
      const path = target.kind === "file" ? target.path : target.kind === "segments" ? target.prefix : null;
      if (path === null) continue;
      await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((err: NodeJS.ErrnoException) => {
        if (err.code === "EEXIST" || err.code === "ENOTDIR")
          throw invalid("filepath", "has a file in place of a folder");
        throw err;
      });
    }
  }

  async function stopBeyond(spareBytes: number, egress: RunningEgress): Promise<void> {
    let bytes = 0;
    for (const { target, output } of egress.outputs) {
      await measure(target, output);
      if (target.kind !== "stream") bytes += output.bytes;
    }
    if (bytes > spareBytes) egress.stop({ status: "LIMIT_REACHED", error: FILES_FULL });
  }

  const stopWithoutSpace = every(runtime, DISK_EVERY_MS, async () => {
    for (const [id, egress] of running) await stopBeyond(reservations.get(id)?.spareBytes ?? 0, egress);
    if (running.size === 0 || (await freeBytes()) >= config.RECORDING_MIN_FREE_BYTES) return;
    for (const egress of running.values())
      egress.stop({ status: "FAILED", error: "There is too little space left on the disk to compose." });
  });

  return {
    find: store.find,
    list: (tenant: Tenant): EgressRow[] => store.list(tenant, LISTED),

    async start(room: RoomRow, input: EgressRequest, author: Author): Promise<EgressRow> {
      const ffmpeg = requirePossible(room, input);
      await requireSpace();
      const { projectId, environment, id: roomId, name: roomName } = room;
      const spareBytes = await spareBytesOf(projectId);
      const id = ids.publicId("egress");
      const at = now();
      const context = contextOf({ id, projectId, environment }, input.words);
      const outputs: PlannedOutput[] = [];
      for (const one of input.outputs) outputs.push(await planOutput(one, context));
      const font = await findFont(ffmpeg);
      // Other egresses may have begun while names were resolved.
      requirePossible(room, input);
      requireUnusedPaths(outputs);
      reservations.set(id, { projectId, outputs, spareBytes });
      const row: EgressRow = {
        id,
        projectId,
        environment,
        roomId,
        roomName,
        status: "STARTING",
        error: null,
        request: input.request,
        outputs: outputs.map(({ output }) => output),
        startedAt: at,
        updatedAt: at,
        endedAt: null,
      };
      try {
        await makeFolders(outputs);
        await write((unit) => {
          store.insert(unit, row);
          audit(unit, author, "egress.started", row);
          bus.publish(unit, "egressChanged", { type: "started", row });
        });
      } catch (error) {
        reservations.delete(id);
        throw error;
      }
      const { source, layout, encoding } = input;
      const showsNames = source.type === "room";
      const egress: RunningEgress = new RunningEgress(
        runtime,
        { watch, nodes },
        { ffmpeg, font, showsNames, roomId, source, layout, encoding, outputs },
        {
          changed: (status) => changed(id, egress, status),
          ended(end) {
            cancelLimit();
            const ending = conclude(id, egress, end)
              .catch((err) => log.error({ err, egressId: id }, "egress: end not saved"))
              .finally(() => {
                endings.delete(ending);
                reservations.delete(id);
              });
            endings.add(ending);
          },
        },
      );
      running.set(id, egress);
      const cancelLimit = timers.after(config.EGRESS_MAX_MINUTES * 60_000, () =>
        egress.stop({ status: "LIMIT_REACHED", error: "The egress has reached EGRESS_MAX_MINUTES." }),
      );
      return row;
    },

    /** Resolves while the files are still being completed. */
    async stop(row: EgressRow, author: Author): Promise<EgressRow> {
      requireRunning(row).stop();
      await write((unit) => audit(unit, author, "egress.stopped", row));
      await runtime.writer.drain();
      return current(row);
    },

    async setLayout(row: EgressRow, layout: Layout, request: string, author: Author): Promise<EgressRow> {
      requireRunning(row).setLayout(layout);
      await write((unit) => audit(unit, author, "egress.updated", row));
      await save(row.id, { request }, "updated");
      return current(row);
    },

    async updateStreams(row: EgressRow, add: string[], remove: string[], author: Author): Promise<EgressRow> {
      const egress = requireRunning(row);
      const removed = remove.map((text) => {
        const url = parseStreamUrl(text).href;
        const found = egress.outputs.find(({ target }) => target.kind === "stream" && target.url === url);
        if (!found) throw invalid("removeOutputUrls", `has ${withoutKey(url)}, which is not sent to`);
        return found.output.id;
      });
      const requireRoom = (): void => {
        if (egress.outputs.length + add.length > MAX_OUTPUTS)
          throw invalid("addOutputUrls", `would make more than ${MAX_OUTPUTS} outputs`);
      };
      requireRoom();
      const context = contextOf(row, {});
      const planned = [];
      for (const url of add) planned.push(await planOutput({ kind: "stream", url }, context));
      // The egress may have ended, or got other outputs, while names were resolved.
      requireRunning(row);
      requireRoom();
      for (const one of planned) egress.addStream(one);
      for (const one of removed) egress.removeStream(one);
      await write((unit) => audit(unit, author, "egress.updated", { ...row, outputs: outputsOf(egress) }));
      await save(row.id, { outputs: outputsOf(egress) }, "updated");
      return current(row);
    },

    /** Ends the egresses of an earlier process. Their compositors ended with it, after completing their files. */
    async recover(): Promise<void> {
      for (const row of store.unfinished()) {
        const outputs = row.outputs.map((one) => ({ ...one, endedAt: one.endedAt ?? row.updatedAt }));
        for (const output of outputs) {
          if (output.status === "STARTING" || output.status === "ACTIVE") output.status = "FAILED";
          const path = join(folderOf(row), output.name);
          if (output.kind !== "file" || output.error !== null || !path.startsWith(`${folderOf(row)}/`)) continue;
          output.bytes = await sizeOf(path);
          if (output.bytes > 0) output.location = path;
        }
        await save(row.id, { status: "ABORTED", error: STOPPED, outputs, endedAt: now() }, "ended");
        await rm(uploadsOf(row.id), { recursive: true, force: true });
      }
    },

    prune: (): Promise<void> => write((unit) => void store.removeEnded(unit, now() - KEPT_DAYS * DAY_MS)),

    async stopAll(error: string): Promise<void> {
      isEnding = true;
      stopWithoutSpace();
      for (const egress of running.values()) egress.stop({ status: "ABORTED", error });
      while (running.size > 0 || endings.size > 0) {
        await Promise.all(endings);
        await new Promise<void>((resolve) => void timers.after(50, resolve));
      }
    },
  };
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}
