import type { Quality } from "../../../protocol/room-records.ts";
import { SAME_OUTAGE_MS } from "../connections/connection-update.ts";
import type { ClientReport, ConnectionStats, RtcConnectionChange } from "../events.ts";
import { BUSY_CPU_PERCENT, type Evidence, LOSS_PERCENT } from "./verdict.ts";

const MAX_MISSING_KEYS = 5;
const MAX_DEVICE_ERRORS = 5;
const MAX_SAMPLES = 64;

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

/** A median over a bounded number of samples. Unlike a mean, it is not affected by a single outlier. */
class Median {
  #values: number[] = [];
  #seen = 0;
  #interval = 1;

  add(value: number | null | undefined): void {
    if (value === null || value === undefined) return;
    if (this.#seen % this.#interval === 0) this.#values.push(value);
    this.#seen += 1;
    if (this.#values.length < MAX_SAMPLES) return;
    // In long calls every second sample is kept, and new samples are taken half as often.
    this.#values = this.#values.filter((_, at) => at % 2 === 0);
    this.#interval *= 2;
  }

  get value(): number | null {
    return this.#at(Math.floor((this.#values.length - 1) / 2));
  }

  /** The upper of two medians, for effects that need a sample or two to become visible. */
  get upper(): number | null {
    return this.#at(Math.floor(this.#values.length / 2));
  }

  #at(rank: number): number | null {
    const value = this.#values.toSorted((a, b) => a - b)[rank];
    return value === undefined ? null : Math.round(value * 10) / 10;
  }
}

/** Collects the evidence of one participation in a few numbers, regardless of its duration. */
export class EvidenceCollector {
  readonly #uplinkLoss = new Mean();
  readonly #downlinkLoss = new Mean();
  readonly #rtt = new Median();
  readonly #uplinkWait = new Median();
  readonly #waitDuringLoss = new Median();
  readonly #jitter = new Mean();
  readonly #linkLoss = new Mean();
  readonly #linkRtt = new Median();
  #linkNarrowMs = 0;
  #linkMinBps: number | null = null;
  readonly #qualityMs: Record<Quality, number> = { excellent: 0, good: 0, poor: 0, lost: 0 };
  readonly #deviceErrors: string[] = [];
  readonly #limitedSeconds = { cpu: 0, bandwidth: 0 };
  #quality: { is: Quality; since: number } | null = null;
  readonly #missingKeysOf = new Set<string>();
  #keysMissingSince: number | null = null;
  #keysMissingMs = 0;
  #stalledSince: number | null = null;
  #stalls = 0;
  #stalledMs = 0;
  #reconnects = 0;
  #lastReturn: { path: "signaling" | "media"; at: number } | null = null;
  #minDownlinkBps: number | null = null;
  #measuredAt: number | null = null;
  #heldBackMs = 0;
  #transport: Evidence["transport"] = null;
  #serverCpuPercent: number | null = null;
  #serverBusyMs = 0;

  /** The current quality; null before the first measurement. */
  get quality(): Quality | null {
    return this.#quality?.is ?? null;
  }

  /** `serverCpuPercent` is null when the load of the server is unknown. */
  record(event: RtcConnectionChange, at: number, serverCpuPercent: number | null = null): void {
    switch (event.type) {
      case "connected":
        this.#transport = event.transport;
        break;
      case "reconnected":
        if (
          this.#lastReturn === null ||
          this.#lastReturn.path === event.path ||
          at - this.#lastReturn.at >= SAME_OUTAGE_MS
        )
          this.#reconnects += 1;
        this.#lastReturn = { path: event.path, at };
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
        if ((event.uplinkLossPercent ?? 0) >= LOSS_PERCENT) this.#waitDuringLoss.add(event.uplinkWaitMs);
        this.#jitter.add(event.jitterMs);
        this.#linkLoss.add(event.serverLinkLossPercent);
        this.#linkRtt.add(event.serverLinkRttMs);
        this.#addStates(event, at - (this.#measuredAt ?? at), serverCpuPercent);
        this.#measuredAt = at;
        break;
    }
  }

  report({ deviceError, limitation, missingKeysOf }: ClientReport, at: number): void {
    if (deviceError !== undefined && this.#deviceErrors.length < MAX_DEVICE_ERRORS)
      this.#deviceErrors.push(deviceError);
    if (limitation) this.#limitedSeconds[limitation.reason] += limitation.seconds;
    if (missingKeysOf === undefined) return;
    this.#closeMissingKeys(at, missingKeysOf.length > 0);
    if (missingKeysOf.length > 0) this.#keysMissingSince ??= at;
    for (const identity of missingKeysOf)
      if (this.#missingKeysOf.size < MAX_MISSING_KEYS) this.#missingKeysOf.add(identity);
  }

  /** A new collector that starts now with the state of this one. */
  continuedFrom(at: number): EvidenceCollector {
    const next = new EvidenceCollector();
    next.#transport = this.#transport;
    next.#measuredAt = this.#measuredAt;
    next.#lastReturn = this.#lastReturn;
    if (this.#quality) next.#quality = { is: this.#quality.is, since: at };
    if (this.#keysMissingSince !== null) {
      next.#keysMissingSince = at;
      for (const identity of this.#missingKeysOf) next.#missingKeysOf.add(identity);
    }
    if (this.#stalledSince !== null) {
      next.#stalledSince = at;
      next.#stalls = 1;
    }
    return next;
  }

  /** The evidence up to a moment. */
  at(now: number): Evidence {
    this.#closeQuality(now);
    this.#closeStall(now, this.#stalledSince !== null);
    this.#closeMissingKeys(now, this.#keysMissingSince !== null);
    return {
      qualityMs: { ...this.#qualityMs },
      uplinkLossPercent: this.#uplinkLoss.value,
      downlinkLossPercent: this.#downlinkLoss.value,
      rttMs: this.#rtt.value,
      uplinkWaitMs: this.#uplinkWait.value,
      waitWhileLosingMs: this.#waitDuringLoss.upper,
      jitterMs: this.#jitter.value,
      leastDownlinkBps: this.#minDownlinkBps,
      heldBackSeconds: Math.round(this.#heldBackMs / 100) / 10,
      transport: this.#transport,
      reconnects: this.#reconnects,
      stalls: this.#stalls,
      stalledMs: this.#stalledMs,
      limitedByCpuSeconds: this.#limitedSeconds.cpu,
      limitedByBandwidthSeconds: this.#limitedSeconds.bandwidth,
      missingKeysOf: [...this.#missingKeysOf],
      missingKeySeconds: Math.round(this.#keysMissingMs / 100) / 10,
      deviceErrors: [...this.#deviceErrors],
      serverCpuPercent: this.#serverCpuPercent,
      serverLinkLossPercent: this.#linkLoss.value,
      serverLinkRttMs: this.#linkRtt.value,
      leastServerLinkBps: this.#linkMinBps,
      serverLinkNarrowSeconds: Math.round(this.#linkNarrowMs / 100) / 10,
      serverBusySeconds: Math.round(this.#serverBusyMs / 100) / 10,
    };
  }

  /** A measurement counts for the time since the last one, which is `ms`. */
  #addStates(stats: ConnectionStats, ms: number, serverCpuPercent: number | null): void {
    const { availableOutBps = null, serverLinkLimitBps = null } = stats;
    if (stats.heldBack) this.#heldBackMs += ms;
    if (availableOutBps !== null)
      this.#minDownlinkBps = Math.min(this.#minDownlinkBps ?? availableOutBps, availableOutBps);
    if (serverLinkLimitBps !== null) {
      this.#linkNarrowMs += ms;
      this.#linkMinBps = Math.min(this.#linkMinBps ?? serverLinkLimitBps, serverLinkLimitBps);
    }
    if (serverCpuPercent === null) return;
    this.#serverCpuPercent = Math.max(this.#serverCpuPercent ?? 0, serverCpuPercent);
    if (serverCpuPercent >= BUSY_CPU_PERCENT) this.#serverBusyMs += ms;
  }

  #closeQuality(at: number): void {
    if (!this.#quality) return;
    this.#qualityMs[this.#quality.is] += Math.max(0, at - this.#quality.since);
    this.#quality.since = at;
  }

  #closeMissingKeys(at: number, stillMissing: boolean): void {
    if (this.#keysMissingSince === null) return;
    this.#keysMissingMs += Math.max(0, at - this.#keysMissingSince);
    this.#keysMissingSince = stillMissing ? at : null;
  }

  #closeStall(at: number, stillStalled = false): void {
    if (this.#stalledSince === null) return;
    this.#stalledMs += Math.max(0, at - this.#stalledSince);
    this.#stalledSince = stillStalled ? at : null;
  }
}
