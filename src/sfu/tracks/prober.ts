/** Sends a short burst of packets the viewer has already got, over RTX: harmless, and what arrives of it tells the rate. */
import type { ProbePlan } from "../bandwidth/probe.ts";
import type { UdpPort } from "../transport/udp.ts";
import type { SentPackets } from "../wire/rtcp/twcc-feedback.ts";
import type { Subscription } from "./subscription.ts";

const STEP_MS = 5;
/** Steps that come late make a burst of it, or a slower one, and what is found is not what the path carries. */
const AWAKE_MS = 50;

export class Prober {
  readonly #sent: SentPackets;
  readonly #udp: UdpPort;
  readonly #now: () => number;
  #timer: Timer | null = null;

  constructor(sent: SentPackets, udp: UdpPort, now: () => number) {
    this.#sent = sent;
    this.#udp = udp;
    this.#now = now;
  }

  /** `sources` have sent packets just now: those are repeated. */
  start(plan: ProbePlan, sources: readonly Subscription[]): void {
    if (sources.length === 0 || this.#timer) return;
    const startedMs = this.#now();
    const totalBytes = plan.bytes;
    let bytes = 0;
    let packets = 0;
    const step = () => {
      const nowMs = this.#now();
      this.#udp.watch?.awake(nowMs, AWAKE_MS);
      const due = Math.min(totalBytes, ((nowMs - startedMs + STEP_MS) / plan.durationMs) * totalBytes);
      let misses = 0;
      while (bytes < due && misses < sources.length) {
        const source = sources[packets % sources.length];
        const size = source?.section.probe(this.#sent, plan.id, this.#udp, nowMs) ?? 0;
        if (size === 0) misses++;
        bytes += size;
        packets++;
      }
      if (bytes >= totalBytes || misses > 0 || nowMs - startedMs > plan.durationMs * 3) this.stop();
    };
    this.#timer = setInterval(step, STEP_MS);
    step();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }
}
