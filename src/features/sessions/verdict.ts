import type { MediaTransport } from "../../protocol/media-node.ts";
import type { CallVerdict, Quality, VerdictCause } from "../../protocol/room-records.ts";

/** What was measured of one participant in a call; null is unknown, and speaks for nothing. */
export type Evidence = {
  /** How long each quality lasted. */
  qualityMs: Record<Quality, number>;
  /** Means over the call, in percent. */
  uplinkLossPercent: number | null;
  downlinkLossPercent: number | null;
  /** As it usually was. */
  rttMs: number | null;
  /** How long packets from the participant usually waited before they left. */
  uplinkWaitMs: number | null;
  /** And while some of them were lost. */
  waitWhileLosingMs: number | null;
  jitterMs: number | null;
  /** The least room there was towards the participant. */
  leastDownlinkBps: number | null;
  /** How long pictures were smaller than wanted, or missing, because no more fitted. */
  heldBackSeconds: number;
  transport: MediaTransport | null;
  reconnects: number;
  /** Times that checks were answered and media did not come. */
  stalls: number;
  stalledMs: number;
  /** What the participant's own encoder said that it was held back by, in seconds. */
  limitedByCpuSeconds: number;
  limitedByBandwidthSeconds: number;
  /** Codes of cameras and microphones that failed. */
  deviceErrors: string[];
  /** The most that the media server's processors had to do. */
  serverCpuPercent: number | null;
  /** How long they had more to do than they could. */
  serverBusySeconds: number;
};

export const LOSS_PERCENT = 3;
const NARROW_BPS = 300_000;
const HIGH_RTT_MS = 350;
/** A line that is simply lossy answers as soon as ever; one that is full lets everything wait, and drops what has no place. */
const WAITED_MS = 200;
export const BUSY_CPU_PERCENT = 90;
/** Of the call: a server that was busy for a minute of an hour is not why the whole of it was bad. */
const BUSY_SHARE = 0.1;
const LIMITED_SECONDS = 5;
/** Of the call: an encoder that was held back for moments of an hour has not made it bad. */
const LIMITED_SHARE = 0.02;
/** An estimate that a moment has frightened takes seconds to come back. */
const HELD_BACK_SECONDS = 10;
const STALLED_MS = 3_000;
const MANY_RECONNECTS = 2;
/** A quality that lasted a tenth of the call was the call's, as people remember it. */
const REMEMBERED = 0.1;

type Finding = { cause: VerdictCause; sentence: string; evidence: Record<string, unknown> };

/**
 * Why a call was bad, in the words of somebody who has to explain it. Causes are tried from the one that explains the
 * others to the one that is explained: a server that cannot keep up loses packets, and lost packets stall media.
 */
export function judgeCall(evidence: Evidence): CallVerdict {
  const quality = rememberedQuality(evidence.qualityMs);
  const finding = CAUSES.map((find) => find(evidence)).find((found) => found !== null);
  if (finding) return { quality, ...finding };
  return { quality, cause: "none", sentence: "Nothing was measured that would have made the call bad.", evidence: {} };
}

/** The worst that lasted long enough. */
function rememberedQuality(qualityMs: Evidence["qualityMs"]): Quality {
  const total = Object.values(qualityMs).reduce((sum, ms) => sum + ms, 0);
  const order: Quality[] = ["lost", "poor", "good"];
  return order.find((quality) => total > 0 && qualityMs[quality] / total >= REMEMBERED) ?? "excellent";
}

const CAUSES: ((evidence: Evidence) => Finding | null)[] = [
  // Busy alone is no fault: somebody has to have felt it.
  ({ serverCpuPercent, serverBusySeconds, ...felt }) =>
    serverCpuPercent === null ||
    serverCpuPercent < BUSY_CPU_PERCENT ||
    !lasted(serverBusySeconds, felt.qualityMs, BUSY_SHARE) ||
    !suffered(felt)
      ? null
      : {
          cause: "server_overload",
          sentence: `The media server was overloaded: its processors were ${round(serverCpuPercent)} % busy.`,
          evidence: { serverCpuPercent, serverBusySeconds },
        },
  ({ deviceErrors }) =>
    deviceErrors.length === 0
      ? null
      : {
          cause: "device",
          sentence: "The participant's camera or microphone failed, or the browser was not allowed to use it.",
          evidence: { deviceErrors },
        },
  ({ limitedByCpuSeconds, qualityMs }) =>
    !matters(limitedByCpuSeconds, qualityMs)
      ? null
      : {
          cause: "publisher_cpu",
          sentence: `The participant's computer was too slow to encode its picture for ${round(limitedByCpuSeconds)} seconds.`,
          evidence: { limitedByCpuSeconds },
        },
  ({ reconnects }) =>
    reconnects < MANY_RECONNECTS
      ? null
      : {
          cause: "reconnects",
          sentence: `The participant's connection broke ${reconnects} times and came back.`,
          evidence: { reconnects },
        },
  (evidence) =>
    evidence.uplinkWaitMs === null && (evidence.rttMs ?? 0) >= WAITED_MS ? heldBackByUpload(evidence) : null,
  uplinkFull,
  uplinkLossy,
  ({ downlinkLossPercent }) =>
    downlinkLossPercent === null || downlinkLossPercent < LOSS_PERCENT
      ? null
      : {
          cause: "downlink_loss",
          sentence: `On the way to the participant ${round(downlinkLossPercent)} % of the packets were lost.`,
          evidence: { downlinkLossPercent },
        },
  heldBackByUpload,
  downlinkNarrow,
  ({ rttMs, transport }) =>
    rttMs === null || rttMs < HIGH_RTT_MS
      ? null
      : transport === "relay"
        ? {
            cause: "relayed",
            sentence: `Media had to go through a relay, and took ${round(rttMs)} ms there and back.`,
            evidence: { rttMs, transport },
          }
        : {
            cause: "high_rtt",
            sentence: `The participant is far away, or on a slow line: ${round(rttMs)} ms there and back.`,
            evidence: { rttMs },
          },
  ({ stalls, stalledMs }) =>
    stalls === 0 || stalledMs < STALLED_MS
      ? null
      : {
          cause: "media_stalled",
          sentence: `The participant was connected, but no media arrived for ${round(stalledMs / 1000)} seconds.`,
          evidence: { stalls, stalledMs },
        },
];

/** Some encoders send more than the line takes and feel nothing of it, while all that they send waits. */
function uplinkFull(evidence: Evidence): Finding | null {
  const { uplinkWaitMs, rttMs, limitedByBandwidthSeconds } = evidence;
  // What waits is most of the round trip; and where the way back is full as well, that is what is known.
  if (!isMostlyWaiting(uplinkWaitMs, rttMs) || downlinkNarrow(evidence)) return null;
  const sentence = `The participant's upload was too narrow for what it sent: packets waited for ${round(uplinkWaitMs)} ms before they left.`;
  return { cause: "uplink_narrow", sentence, evidence: { uplinkWaitMs, limitedByBandwidthSeconds } };
}

/** What was lost, and why: a line that is full drops what has no place, and lets the rest wait. */
function uplinkLossy(evidence: Evidence): Finding | null {
  const { uplinkLossPercent, downlinkLossPercent, waitWhileLosingMs } = evidence;
  if (uplinkLossPercent === null || uplinkLossPercent < LOSS_PERCENT) return null;
  if (uplinkLossPercent < (downlinkLossPercent ?? 0)) return null;
  const lost = `${round(uplinkLossPercent)} % of the packets`;
  if (isMostlyWaiting(waitWhileLosingMs, evidence.rttMs) && !downlinkNarrow(evidence)) {
    const sentence = `The participant's upload was too narrow for what it sent: ${lost} were lost, and the others waited for ${round(waitWhileLosingMs)} ms before they left.`;
    return { cause: "uplink_narrow", sentence, evidence: { uplinkLossPercent, waitWhileLosingMs } };
  }
  const sentence = `On the way from the participant ${lost} were lost.`;
  return { cause: "uplink_loss", sentence, evidence: { uplinkLossPercent } };
}

function isMostlyWaiting(waitMs: number | null, rttMs: number | null): waitMs is number {
  return waitMs !== null && waitMs >= WAITED_MS && waitMs * 2 >= (rttMs ?? 0);
}

function heldBackByUpload({ limitedByBandwidthSeconds, qualityMs }: Evidence): Finding | null {
  if (!matters(limitedByBandwidthSeconds, qualityMs)) return null;
  const sentence = `The participant's upload was too narrow for its picture for ${round(limitedByBandwidthSeconds)} seconds.`;
  return { cause: "uplink_narrow", sentence, evidence: { limitedByBandwidthSeconds } };
}

/** An estimate alone says little: where little is sent, little is known to fit, and a moment's delay looks like a narrow line. */
function downlinkNarrow({ leastDownlinkBps, heldBackSeconds, qualityMs }: Evidence): Finding | null {
  const isNarrow = leastDownlinkBps !== null && leastDownlinkBps < NARROW_BPS;
  if (!isNarrow || heldBackSeconds < HELD_BACK_SECONDS || !matters(heldBackSeconds, qualityMs)) return null;
  const sentence = `The participant's download was too narrow for what it wanted to see for ${round(heldBackSeconds)} seconds: it went down to ${round(leastDownlinkBps / 1000)} kbit/s.`;
  return { cause: "downlink_narrow", sentence, evidence: { leastDownlinkBps, heldBackSeconds } };
}

function suffered(
  felt: Pick<Evidence, "qualityMs" | "uplinkLossPercent" | "downlinkLossPercent" | "stalledMs">,
): boolean {
  const { qualityMs, uplinkLossPercent, downlinkLossPercent, stalledMs } = felt;
  const lossPercent = Math.max(uplinkLossPercent ?? 0, downlinkLossPercent ?? 0);
  return rememberedQuality(qualityMs) !== "excellent" || lossPercent >= LOSS_PERCENT || stalledMs >= STALLED_MS;
}

function matters(limitedSeconds: number, qualityMs: Evidence["qualityMs"]): boolean {
  return limitedSeconds >= LIMITED_SECONDS && lasted(limitedSeconds, qualityMs, LIMITED_SHARE);
}

function lasted(seconds: number, qualityMs: Evidence["qualityMs"], share: number): boolean {
  const totalSeconds = Object.values(qualityMs).reduce((sum, ms) => sum + ms, 0) / 1_000;
  return seconds > 0 && seconds >= totalSeconds * share;
}

function round(value: number): number {
  return Math.round(value);
}
