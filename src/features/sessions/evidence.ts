import type { Quality } from "../../protocol/room-records.ts";
import type { RtcConnectionChange } from "./events.ts";
import { BUSY_CPU_PERCENT, type Evidence, LOSS_PERCENT } from "./verdict.ts";

/** A client's word for what holds its encoder back, or what failed. */
export type ClientReport = { deviceError?: string; limitation?: { reason: "cpu" | "bandwidth"; seconds: number } };

const MOST_DEVICE_ERRORS = 5;
/** Of which the middle one is told. */
const MOST_SAMPLES = 64;
/** What returns within this of the other path is the same return. */
const SAME_OUTAGE_MS = 20_000;

/** A mean that grows with every sample. */
class Mean {
  #sum = 0;
  #count = 0;

  add(value: number | null | undefined): void {
    if (value === null || value === undefined) return;
    this.#sum += value;
    this.#count += 1;
  }

  get value(): number | null {
    return this.#count === 0 ? null : Math.round((this.#sum / this.#count) * 10) / 10;
  }
}

/** What was usual: half of all samples are no more than it. A moment's standstill, which a mean would show, does not. */
class Middle {
  #values: number[] = [];
  #seen = 0;
  #every = 1;

  add(value: number | null | undefined): void {
    if (value === null || value === undefined) return;
    if (this.#seen % this.#every === 0) this.#values.push(value);
    this.#seen += 1;
    if (this.#values.length < MOST_SAMPLES) return;
    // However long a call lasts: every second one, and from now on as seldom.
    this.#values = this.#values.filter((_, at) => at % 2 === 0);
    this.#every *= 2;
  }

  get value(): number | null {
    return this.#at(Math.floor((this.#values.length - 1) / 2));
  }

  /** Of two in the middle the higher one: for what takes a sample or two to show. */
  get higher(): number | null {
    return this.#at(Math.floor(this.#values.length / 2));
  }

  #at(place: number): number | null {
    const value = this.#values.toSorted((a, b) => a - b)[place];
    return value === undefined ? null : Math.round(value * 10) / 10;
  }
}

/** Gathers what is measured of one participant while it is in a call: a few numbers, however long it lasts. */
export class EvidenceGatherer {
  readonly #uplinkLoss = new Mean();
  readonly #downlinkLoss = new Mean();
  readonly #rtt = new Middle();
  readonly #uplinkWait = new Middle();
  readonly #waitWhileLosing = new Middle();
  readonly #jitter = new Mean();
  readonly #qualityMs: Record<Quality, number> = { excellent: 0, good: 0, poor: 0, lost: 0 };
  readonly #deviceErrors: string[] = [];
  readonly #limitedSeconds = { cpu: 0, bandwidth: 0 };
  #quality: { is: Quality; since: number } | null = null;
  #stalledSince: number | null = null;
  #stalls = 0;
  #stalledMs = 0;
  #reconnects = 0;
  #returned: { path: "signaling" | "media"; at: number } | null = null;
  #leastDownlinkBps: number | null = null;
  #measuredAt: number | null = null;
  #heldBackMs = 0;
  #transport: Evidence["transport"] = null;
  #serverCpuPercent: number | null = null;
  #serverBusyMs = 0;

  /** What is heard of a server that was so busy: null where nobody knows. */
  hear(event: RtcConnectionChange, at: number, serverCpuPercent: number | null = null): void {
    switch (event.type) {
      case "connected":
        this.#transport = event.transport;
        break;
      case "reconnected":
        // Socket and packets notice one outage at different times.
        if (this.#returned === null || this.#returned.path === event.path || at - this.#returned.at >= SAME_OUTAGE_MS)
          this.#reconnects += 1;
        this.#returned = { path: event.path, at };
        break;
      case "qualityChanged":
        this.#closeQuality(at);
        this.#quality = { is: event.quality, since: at };
        break;
      case "mediaStalled":
        this.#stalls += 1;
        this.#stalledSince ??= at;
        break;
      case "mediaFlows":
        this.#closeStall(at);
        break;
      case "stats":
        this.#uplinkLoss.add(event.uplinkLossPercent);
        this.#downlinkLoss.add(event.downlinkLossPercent);
        this.#rtt.add(event.rttMs);
        this.#uplinkWait.add(event.uplinkWaitMs);
        if ((event.uplinkLossPercent ?? 0) >= LOSS_PERCENT) this.#waitWhileLosing.add(event.uplinkWaitMs);
        this.#jitter.add(event.jitterMs);
        this.#fits(event.availableOutBps ?? null);
        this.#lasted(at - (this.#measuredAt ?? at), event.heldBack === true, serverCpuPercent);
        this.#measuredAt = at;
        break;
    }
  }

  report({ deviceError, limitation }: ClientReport): void {
    if (deviceError !== undefined && this.#deviceErrors.length < MOST_DEVICE_ERRORS)
      this.#deviceErrors.push(deviceError);
    if (limitation) this.#limitedSeconds[limitation.reason] += limitation.seconds;
  }

  /** Another that begins now, with what lasts. */
  goingOn(at: number): EvidenceGatherer {
    const next = new EvidenceGatherer();
    next.#transport = this.#transport;
    next.#measuredAt = this.#measuredAt;
    next.#returned = this.#returned;
    if (this.#quality) next.#quality = { is: this.#quality.is, since: at };
    if (this.#stalledSince !== null) {
      next.#stalledSince = at;
      next.#stalls = 1;
    }
    return next;
  }

  /** As it stands at this moment. */
  at(now: number): Evidence {
    this.#closeQuality(now);
    this.#closeStall(now, this.#stalledSince !== null);
    return {
      qualityMs: { ...this.#qualityMs },
      uplinkLossPercent: this.#uplinkLoss.value,
      downlinkLossPercent: this.#downlinkLoss.value,
      rttMs: this.#rtt.value,
      uplinkWaitMs: this.#uplinkWait.value,
      waitWhileLosingMs: this.#waitWhileLosing.higher,
      jitterMs: this.#jitter.value,
      leastDownlinkBps: this.#leastDownlinkBps,
      heldBackSeconds: Math.round(this.#heldBackMs / 100) / 10,
      transport: this.#transport,
      reconnects: this.#reconnects,
      stalls: this.#stalls,
      stalledMs: this.#stalledMs,
      limitedByCpuSeconds: this.#limitedSeconds.cpu,
      limitedByBandwidthSeconds: this.#limitedSeconds.bandwidth,
      deviceErrors: [...this.#deviceErrors],
      serverCpuPercent: this.#serverCpuPercent,
      serverBusySeconds: Math.round(this.#serverBusyMs / 100) / 10,
    };
  }

  /** What was measured holds for the time since the last measurement. */
  #lasted(ms: number, heldBack: boolean, serverCpuPercent: number | null): void {
    if (heldBack) this.#heldBackMs += ms;
    if (serverCpuPercent === null) return;
    this.#serverCpuPercent = Math.max(this.#serverCpuPercent ?? 0, serverCpuPercent);
    if (serverCpuPercent >= BUSY_CPU_PERCENT) this.#serverBusyMs += ms;
  }

  #fits(bps: number | null): void {
    if (bps !== null) this.#leastDownlinkBps = Math.min(this.#leastDownlinkBps ?? bps, bps);
  }

  #closeQuality(at: number): void {
    if (!this.#quality) return;
    this.#qualityMs[this.#quality.is] += Math.max(0, at - this.#quality.since);
    this.#quality.since = at;
  }

  #closeStall(at: number, goesOn = false): void {
    if (this.#stalledSince === null) return;
    this.#stalledMs += Math.max(0, at - this.#stalledSince);
    this.#stalledSince = goesOn ? at : null;
  }
}
