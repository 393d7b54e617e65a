import { isLost } from "../../errors.ts";
import { onWake } from "../../wake.ts";
import { FlowMeter } from "./flow-meter.ts";
import type { Transport } from "./transport.ts";

/** What is done about media that does not flow, one after another. */
export type Remedy = "ice-restart" | "new-connection";

export type MediaGuardDeps = {
  signalingOpen: () => boolean;
  /** Whether the server answers in time; if it does not, another socket is opened, and whoever resumes calls `check`. */
  reach: (withinMs?: number) => Promise<boolean>;
  /** Media has stopped, or flows again. */
  onFlow: (flowing: boolean) => void;
  /** `ever`: whether this connection has carried anything at all. */
  onRemedy: (remedy: Remedy, ever: boolean) => void;
  /** Another peer connection in the same session: nobody sees a leave. Resolves when its offer was answered. */
  rebuild: () => Promise<void>;
  /** Nothing was of use: join anew. */
  giveUp: (ever: boolean) => void;
};

/** A short hiccup mends itself; browsers say `disconnected` after five seconds of silence already. */
const PATIENCE_MS = 2_000;
const FIRST_MS = 10_000;
/** How long each remedy has before the next is tried. */
const REMEDIES: readonly { remedy: Remedy; waitMs: number }[] = [
  { remedy: "ice-restart", waitMs: 4_000 },
  { remedy: "new-connection", waitMs: 6_000 },
  { remedy: "new-connection", waitMs: 8_000 },
];
const METER_EVERY_MS = 800;
const TOLERATED_READINGS = 2;
/** Media and socket have fallen silent together: long enough to be sure that this network is gone. */
const CUT_OFF_MS = 1_000;
/** So much silence in a row is more than a pause between two reports. */
const SILENT_READINGS = 10;
/** So much flow in a row, and the trouble is over: what is wrong after it is another one. */
const FLOWING_READINGS = 7;

/** Notices that media has stopped flowing and brings it back, by remedies that grow. */
export class MediaGuard {
  readonly #deps: MediaGuardDeps;
  readonly #stopListening: () => void;
  #transport: Transport | null = null;
  #meter = new FlowMeter(TOLERATED_READINGS);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #metering: ReturnType<typeof setInterval> | undefined;
  #tried = 0;
  /** A remedy that is under way. */
  #mending: symbol | null = null;
  #ever = false;
  /** Who has noticed that nothing comes over a connection that is up; only they can tell that it is over. */
  #stalledBy: "server" | "meter" | null = null;
  #silent = 0;
  #flowing = 0;

  constructor(deps: MediaGuardDeps) {
    this.#deps = deps;
    // Wi-Fi to mobile: the browser may take half a minute to give up the old path by itself.
    this.#stopListening = onWake(() => this.#transport && this.check());
  }

  /** The connection of a join. */
  watch(transport: Transport): void {
    this.#tried = 0;
    this.#mending = null;
    this.#ever = false;
    this.#stalledBy = null;
    this.replace(transport);
    this.#later(FIRST_MS);
  }

  /** Another connection of the same session: what was tried so far counts on. */
  replace(transport: Transport): void {
    clearTimeout(this.#timer);
    clearInterval(this.#metering);
    this.#transport = transport;
    this.#meter = new FlowMeter(TOLERATED_READINGS);
    this.#silent = this.#flowing = 0;
    this.#metering = setInterval(() => void this.#read(transport), METER_EVERY_MS);
  }

  stateChanged(state: RTCPeerConnectionState): void {
    switch (state) {
      case "connected":
        this.#ever = true;
        if (this.#stalledBy !== null) break;
        clearTimeout(this.#timer);
        this.#deps.onFlow(true);
        break;
      case "disconnected":
        this.#deps.onFlow(false);
        void this.#deps.reach();
        this.#doubt();
        break;
      case "failed":
        this.#deps.onFlow(false);
        this.check();
        break;
    }
  }

  /** The connection is up, and nothing comes of what is due. */
  stalled(by: "server" | "meter" = "server"): void {
    const first = this.#stalledBy === null;
    this.#stalledBy = by;
    if (!first) return;
    this.#deps.onFlow(false);
    this.check();
  }

  flows(by: "server" | "meter" = "server"): void {
    if (this.#stalledBy !== by) return;
    this.#stalledBy = null;
    if (this.#transport?.pc.connectionState !== "connected") return;
    clearTimeout(this.#timer);
    this.#deps.onFlow(true);
  }

  /** Does something about it unless media flows. While the socket is down there is nothing to do: a resume calls this again. */
  check = (): void => {
    clearTimeout(this.#timer);
    const transport = this.#transport;
    if (!transport || !this.#deps.signalingOpen() || this.#mending !== null || this.#isFine(transport)) return;
    const mending = Symbol();
    this.#mending = mending;
    void this.#mend(transport).finally(() => {
      if (this.#mending === mending) this.#mending = null;
    });
  };

  /** One after another, and none that nobody hears: on a network that is gone all of them would be used up when it returns. */
  async #mend(transport: Transport): Promise<void> {
    if (!(await this.#deps.reach()) || this.#transport !== transport || this.#isFine(transport)) return;
    const next = REMEDIES[this.#tried];
    if (!next) {
      this.#tried = 0;
      this.#deps.giveUp(this.#ever);
      return;
    }
    this.#tried += 1;
    this.#deps.onRemedy(next.remedy, this.#ever);
    const done = next.remedy === "ice-restart" ? transport.negotiate({ iceRestart: true }) : this.#deps.rebuild();
    const current = this.#transport;
    await done.catch((error) => {
      if (isLost(error)) this.#tried -= 1;
    });
    if (this.#transport === current) this.#later(next.waitMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#metering);
    this.#transport = null;
    this.#stopListening();
  }

  async #read(transport: Transport): Promise<void> {
    if (transport.pc.connectionState !== "connected") {
      this.#silent = this.#flowing = 0;
      return;
    }
    const wasCutOff = this.#meter.isCutOff;
    const flow = await this.#meter.read(transport.pc);
    if (this.#transport !== transport) return;
    this.#silent = flow === "silent" ? this.#silent + 1 : 0;
    this.#flowing = flow === "flows" ? this.#flowing + 1 : 0;
    // Browsers take five seconds to say so, and the socket twice that.
    if (this.#meter.isCutOff && !wasCutOff) void this.#deps.reach(CUT_OFF_MS);
    if (this.#silent >= SILENT_READINGS) this.stalled("meter");
    if (this.#flowing > 0) this.flows("meter");
    if (this.#flowing >= FLOWING_READINGS && this.#stalledBy === null) this.#tried = 0;
  }

  /**
   * One lost check is enough for Firefox to say `disconnected`, and it stays there until the next one, seconds later. As
   * long as packets arrive there is nothing to mend, and every remedy would be the interruption itself.
   */
  #doubt(): void {
    const transport = this.#transport;
    if (!transport) return;
    const meter = new FlowMeter();
    const before = meter.read(transport.pc);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      await before;
      const flow = await meter.read(transport.pc);
      if (this.#transport !== transport || transport.pc.connectionState !== "disconnected") return;
      if (flow !== "flows" || this.#stalledBy !== null) return this.check();
      this.#deps.onFlow(true);
      this.#doubt();
    }, PATIENCE_MS);
  }

  #isFine({ pc }: Transport): boolean {
    if (pc.connectionState === "closed") return true;
    return pc.connectionState === "connected" && this.#stalledBy === null && !this.#meter.isCutOff;
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.check, ms);
  }
}
