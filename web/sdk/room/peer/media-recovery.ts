import { isLost } from "../../errors.ts";
import { onWake } from "../../wake.ts";
import { FlowMeter } from "./flow-meter.ts";
import type { Transport } from "./transport.ts";

/** The remedies for media that does not flow, tried in order. */
export type Remedy = "ice-restart" | "new-connection";

export type MediaRecoveryDeps = {
  signalingOpen: () => boolean;
  /** Resolves with whether the server responds in time; if not, the socket is replaced and the resume calls `check`. */
  probe: (withinMs?: number) => Promise<boolean>;
  /** Called when media stops or flows again. */
  onFlow: (flowing: boolean) => void;
  /** `wasConnected` says whether this connection was ever established. */
  onRemedy: (remedy: Remedy, wasConnected: boolean) => void;
  /** Opens another peer connection in the same session, without a visible leave; resolves when its offer is answered. */
  rebuild: () => Promise<void>;
  /** Called when all remedies have failed: the room has to be joined again. */
  giveUp: (wasConnected: boolean) => void;
};

/** A short interruption recovers by itself, and `disconnected` comes only after about five seconds of silence. */
const DISCONNECTED_GRACE_MS = 2_000;
const FIRST_CHECK_MS = 10_000;
/** How long each remedy has before the next is tried. */
const REMEDIES: readonly { remedy: Remedy; waitMs: number }[] = [
  { remedy: "ice-restart", waitMs: 4_000 },
  { remedy: "new-connection", waitMs: 6_000 },
  { remedy: "new-connection", waitMs: 8_000 },
];
const METER_EVERY_MS = 800;
const TOLERATED_READINGS = 2;
/** When media and socket fall silent together, this is long enough to be sure that the network is gone. */
const CUT_OFF_PROBE_MS = 1_000;
/** More silent readings in a row than fit between two receiver reports. */
const SILENT_READINGS = 10;
/** After this many readings with flow in a row, the next failure counts as a new one. */
const FLOWING_READINGS = 7;

/** Detects that media has stopped flowing and recovers it with increasingly drastic remedies. */
export class MediaRecovery {
  readonly #deps: MediaRecoveryDeps;
  readonly #stopListening: () => void;
  #transport: Transport | null = null;
  #meter = new FlowMeter(TOLERATED_READINGS);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #meterTimer: ReturnType<typeof setInterval> | undefined;
  #attempts = 0;
  /** The remedy that is in progress. */
  #activeRemedy: symbol | null = null;
  #wasConnected = false;
  /** Which side has detected that a connected transport carries no media; only that side can clear it. */
  #stalledBy: "server" | "meter" | null = null;
  #silent = 0;
  #flowing = 0;

  constructor(deps: MediaRecoveryDeps) {
    this.#deps = deps;
    // When a phone changes from Wi-Fi to mobile data, the browser may keep the old path for half a minute.
    this.#stopListening = onWake(() => this.#transport && this.check());
  }

  /** Watches the connection of a new session. */
  watch(transport: Transport): void {
    this.#attempts = 0;
    this.#activeRemedy = null;
    this.#wasConnected = false;
    this.#stalledBy = null;
    this.replace(transport);
    this.#scheduleCheck(FIRST_CHECK_MS);
  }

  /** Watches another connection of the same session; the number of attempts is kept. */
  replace(transport: Transport): void {
    clearTimeout(this.#timer);
    clearInterval(this.#meterTimer);
    this.#transport = transport;
    this.#meter = new FlowMeter(TOLERATED_READINGS);
    this.#silent = this.#flowing = 0;
    this.#meterTimer = setInterval(() => void this.#read(transport), METER_EVERY_MS);
  }

  stateChanged(state: RTCPeerConnectionState): void {
    switch (state) {
      case "connected":
        this.#wasConnected = true;
        if (this.#stalledBy !== null) break;
        clearTimeout(this.#timer);
        this.#deps.onFlow(true);
        break;
      case "disconnected":
        this.#deps.onFlow(false);
        void this.#deps.probe();
        this.#watchDisconnected();
        break;
      case "failed":
        this.#deps.onFlow(false);
        this.check();
        break;
    }
  }

  /** The connection is up, but expected media does not arrive. */
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

  /** Applies the next remedy unless media flows. While the socket is down it does nothing; the resume calls it again. */
  check = (): void => {
    clearTimeout(this.#timer);
    const transport = this.#transport;
    if (!transport || !this.#deps.signalingOpen() || this.#activeRemedy !== null || this.#isHealthy(transport)) return;
    const activeRemedy = Symbol();
    this.#activeRemedy = activeRemedy;
    void this.#applyRemedy(transport).finally(() => {
      if (this.#activeRemedy === activeRemedy) this.#activeRemedy = null;
    });
  };

  /** Remedies need a reachable server; otherwise all of them would be used up before a lost network returns. */
  async #applyRemedy(transport: Transport): Promise<void> {
    if (!(await this.#deps.probe()) || this.#transport !== transport || this.#isHealthy(transport)) return;
    const next = REMEDIES[this.#attempts];
    if (!next) {
      this.#attempts = 0;
      this.#deps.giveUp(this.#wasConnected);
      return;
    }
    this.#attempts += 1;
    this.#deps.onRemedy(next.remedy, this.#wasConnected);
    const done = next.remedy === "ice-restart" ? transport.negotiate({ iceRestart: true }) : this.#deps.rebuild();
    const current = this.#transport;
    await done.catch((error) => {
      if (isLost(error)) this.#attempts -= 1;
    });
    if (this.#transport === current) this.#scheduleCheck(next.waitMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#meterTimer);
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
    // Without this probe, a lost network would be detected after five seconds by the browser's ICE agent and after ten
    // by the WebSocket.
    if (this.#meter.isCutOff && !wasCutOff) void this.#deps.probe(CUT_OFF_PROBE_MS);
    if (this.#silent >= SILENT_READINGS) this.stalled("meter");
    if (this.#flowing > 0) this.flows("meter");
    if (this.#flowing >= FLOWING_READINGS && this.#stalledBy === null) this.#attempts = 0;
  }

  /**
   * Firefox reports `disconnected` after a single lost check and stays there until the next one, seconds later. While
   * packets arrive there is nothing to recover, and any remedy would cause an interruption.
   */
  #watchDisconnected(): void {
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
      this.#watchDisconnected();
    }, DISCONNECTED_GRACE_MS);
  }

  #isHealthy({ pc }: Transport): boolean {
    if (pc.connectionState === "closed") return true;
    return pc.connectionState === "connected" && this.#stalledBy === null && !this.#meter.isCutOff;
  }

  #scheduleCheck(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.check, ms);
  }
}
