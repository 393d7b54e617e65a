/** One egress from its request to its end: its compositor, its place in the room, and the state of its outputs. */
import { type MediaProcess, startMediaProcess } from "../../kernel/own-command.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import {
  COMPOSITOR_COMMAND,
  type FromCompositor,
  type OutputReport,
  type StartCompositor,
  type ToCompositor,
} from "./compositor/messages.ts";
import type { Layout } from "./compositor/scene.ts";
import type { EgressOutput, EgressStatus } from "./egress.table.ts";
import type { PlannedOutput } from "./output-plan.ts";
import { RoomLink } from "./room-link.ts";
import type { EgressSource, RoomContent, RoomWatch } from "./room-watch.ts";

/** How long an egress waits for the first track. */
const FIRST_TRACK_MS = 300_000;
/** How long an egress waits for tracks to return, for instance after a page was reloaded. */
const NO_TRACKS_MS = 20_000;
/** How long a compositor that was asked to end may take to complete its files. */
const END_WITHIN_MS = 30_000;

export type EgressEnd = { status: Exclude<EgressStatus, "STARTING" | "ACTIVE" | "ENDING">; error: string | null };

type Options = Omit<StartCompositor, "outputs"> & { roomId: string; source: EgressSource; outputs: PlannedOutput[] };

type Host = {
  /** Called when something has changed that the egress's owner sees. */
  changed(status: EgressStatus): void;
  /** Called when the compositor has ended; nothing changes after that. */
  ended(end: EgressEnd): void;
};

export class RunningEgress {
  readonly outputs: PlannedOutput[];
  readonly #runtime: Runtime;
  readonly #options: Options;
  readonly #host: Host;
  readonly #link: RoomLink;
  readonly #unwatch: () => void;
  #process: MediaProcess<ToCompositor> | null = null;
  #state: RoomContent = { serverName: null, tracks: [], participants: [] };
  #speakers: string[] = [];
  #status: EgressStatus = "STARTING";
  #end: EgressEnd | null = null;
  #isOver = false;
  #cancelWait: () => void;

  constructor(
    runtime: Runtime,
    deps: { watch: RoomWatch; nodes: Pick<MediaNodes, "find"> },
    options: Options,
    host: Host,
  ) {
    this.#runtime = runtime;
    this.#options = options;
    this.#host = host;
    this.outputs = options.outputs;
    this.#link = new RoomLink(deps.nodes, options.roomId, runtime.ids.uuid);
    this.#cancelWait = this.#stopAfter(FIRST_TRACK_MS, { status: "ABORTED", error: "Start signal not received" });
    this.#unwatch = deps.watch(options, {
      changed: (state) => this.#roomChanged(state),
      spoke: (speakers) => {
        this.#speakers = speakers;
        this.#sendScene();
      },
      // The worker that had its participant was lost, so it moves to another one.
      lost: () => this.#move(this.#state.serverName),
    });
  }

  get roomId(): string {
    return this.#options.roomId;
  }

  get status(): EgressStatus {
    return this.#status;
  }

  /** Ends the egress; `ended` is called when its files are complete. */
  stop(end: EgressEnd = { status: "COMPLETE", error: null }): void {
    if (this.#end) return;
    this.#unwatch();
    this.#cancelWait();
    if (!this.#process) {
      this.#end = end.status === "COMPLETE" ? { status: "ABORTED", error: "Stopped before anything was sent" } : end;
      this.#finish();
      return;
    }
    this.#end = end;
    this.#status = "ENDING";
    this.#process.send({ type: "stop" });
    const compositor = this.#process;
    this.#cancelWait = this.#runtime.timers.after(END_WITHIN_MS, () => {
      this.#end = { status: "FAILED", error: "The files were not complete in time, and end early." };
      compositor.kill();
    });
    this.#host.changed(this.#status);
  }

  setLayout(layout: Layout): void {
    this.#options.layout = layout;
    this.#process?.send({ type: "layout", layout });
  }

  addStream(planned: PlannedOutput): void {
    this.outputs.push(planned);
    if (this.#process && planned.target.kind === "stream")
      this.#process.send({ type: "addOutput", output: planned.target });
  }

  removeStream(id: string): void {
    const found = this.outputs.find(({ output }) => output.id === id);
    if (!found) return;
    if (this.#process) this.#process.send({ type: "removeOutput", id });
    else found.output.status = "FINISHED";
  }

  #stopAfter(ms: number, end: EgressEnd): () => void {
    return this.#runtime.timers.after(ms, () => this.stop(end));
  }

  #roomChanged(state: RoomContent): void {
    const had = this.#state.tracks.length > 0;
    this.#state = state;
    const has = state.tracks.length > 0;
    if (has && !this.#process) this.#begin();
    if (!this.#process) return;
    if (has) this.#cancelWait();
    else if (had) this.#cancelWait = this.#stopAfter(NO_TRACKS_MS, { status: "COMPLETE", error: null });
    this.#sendScene();
    if (state.serverName !== this.#link.serverName) this.#move(state.serverName);
  }

  #begin(): void {
    const { ffmpeg, font, layout, showsNames, encoding } = this.#options;
    this.#process = startMediaProcess<ToCompositor, FromCompositor>(
      this.#runtime.log,
      COMPOSITOR_COMMAND,
      (message) => this.#receive(message),
      (error) => {
        this.#end ??= { status: "FAILED", error: `The compositor ended: ${error}` };
        this.#finish();
      },
    );
    const outputs = this.outputs.map(({ target }) => target);
    this.#process.send({ type: "start", ffmpeg, font, layout, showsNames, encoding, outputs });
  }

  #sendScene(): void {
    this.#process?.send({ type: "scene", tracks: this.#state.tracks, speakers: this.#speakers });
  }

  #move(serverName: string | null): void {
    const wasOpen = this.#link.serverName !== null;
    if (wasOpen) this.#process?.send({ type: "disconnect" });
    const closed = wasOpen ? this.#link.close() : Promise.resolve();
    if (serverName === null) return;
    closed
      .then(() => this.#link.open(serverName))
      .then(() => this.#process?.send({ type: "connect" }))
      .catch((err) => this.#runtime.log.warn({ err, roomId: this.roomId }, "egress: connecting to the room failed"));
  }

  #receive(message: FromCompositor): void {
    switch (message.type) {
      case "negotiate": {
        const { request, sdp, subscribe } = message;
        const known = subscribe.filter(({ trackId }) => this.#state.tracks.some((track) => track.trackId === trackId));
        this.#link.negotiate(sdp, known).then(
          (answer) => this.#process?.send({ type: "answer", request, answer, error: null }),
          (error: Error) => this.#process?.send({ type: "answer", request, answer: null, error: error.message }),
        );
        break;
      }
      case "subscriptions":
        this.#link.update(message.tracks).catch(() => {});
        break;
      case "started":
        if (this.#status !== "STARTING") break;
        this.#status = "ACTIVE";
        this.#host.changed(this.#status);
        break;
      case "output":
        this.#outputChanged(message);
        break;
      case "slow":
        this.#runtime.log.warn({ roomId: this.roomId }, "egress: machine too slow, frames skipped");
        break;
      case "ended":
        this.#end ??= { status: "FAILED", error: message.error };
        if (message.error !== null) this.#end = { status: "FAILED", error: message.error };
        break;
    }
  }

  #outputChanged({ id, state, error, bytes, durationMs }: OutputReport): void {
    const output = this.outputs.find((one) => one.output.id === id)?.output;
    if (!output) return;
    const now = this.#runtime.now();
    output.startedAt ??= now - durationMs;
    Object.assign(output, { bytes, durationMs });
    if (state === "active") output.status = "ACTIVE";
    else {
      output.status = state === "ended" ? "FINISHED" : "FAILED";
      output.endedAt = now;
      output.error = error;
    }
    const isOver = ({ status }: EgressOutput) => status === "FAILED" || status === "FINISHED";
    if (!this.#end && this.outputs.every((one) => isOver(one.output))) {
      const failure = this.outputs.find((one) => one.output.status === "FAILED")?.output.error ?? null;
      this.stop({ status: failure === null ? "COMPLETE" : "FAILED", error: failure });
    } else if (!this.#end) this.#host.changed(this.#status);
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#unwatch();
    this.#cancelWait();
    void this.#link.close();
    this.#process = null;
    this.#host.ended(this.#end ?? { status: "FAILED", error: null });
  }
}
