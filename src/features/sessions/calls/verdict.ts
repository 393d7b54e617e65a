import type { MediaTransport } from "../../../protocol/media-node.ts";
import type { CallVerdict, Quality, VerdictCause } from "../../../protocol/room-records.ts";

/** The measurements of one participant in a call. Null means unknown and is no evidence. */
export type Evidence = {
  qualityMs: Record<Quality, number>;
  /** Means over the call, in percent. */
  uplinkLossPercent: number | null;
  downlinkLossPercent: number | null;
  /** The median. */
  rttMs: number | null;
  /** How long packets from the participant usually waited in its upload queue. */
  uplinkWaitMs: number | null;
  /** The same wait, measured only in intervals in which packets were lost. */
  waitWhileLosingMs: number | null;
  jitterMs: number | null;
  /** The lowest bandwidth estimate towards the participant. */
  leastDownlinkBps: number | null;
  /** How long the participant got smaller video than it subscribed to, or none, because of insufficient bandwidth. */
  heldBackSeconds: number;
  transport: MediaTransport | null;
  reconnects: number;
  /** How often connectivity checks were answered although no media arrived. */
  stalls: number;
  stalledMs: number;
  /** The limitations of the participant's encoder, as the client reported them. */
  limitedByCpuSeconds: number;
  limitedByBandwidthSeconds: number;
  /** Participants whose encrypted tracks the client could not decrypt, and for how long there were any. */
  missingKeysOf: string[];
  missingKeySeconds: number;
  /** Error codes of cameras and microphones. */
  deviceErrors: string[];
  /** The highest CPU load of the media server. */
  serverCpuPercent: number | null;
  /** How long the server's load was too high. */
  serverBusySeconds: number;
  /** The average loss of the links between media servers over which the participant received tracks. */
  serverLinkLossPercent: number | null;
  serverLinkRttMs: number | null;
  leastServerLinkBps: number | null;
  /** How long the link was too narrow for all video layers that viewers wanted. */
  serverLinkNarrowSeconds: number;
};

export const LOSS_PERCENT = 3;
const NARROW_BPS = 300_000;
const HIGH_RTT_MS = 350;
/** A lossy link keeps its round-trip time; a full link delays all packets and drops some. */
const FULL_LINK_WAIT_MS = 200;
export const BUSY_CPU_PERCENT = 90;
/** The required share of the call: a server that was busy for a minute does not explain a bad hour. */
const BUSY_SHARE = 0.1;
const LIMITED_SECONDS = 5;
/** The required share of the call: a limitation of some moments does not explain a bad hour. */
const LIMITED_SHARE = 0.02;
/** A bandwidth estimate takes seconds to recover from a short dip. */
const NARROW_SECONDS = 10;
const STALLED_MS = 3_000;
/** Keys arrive a moment after the tracks. */
const MISSING_KEY_SECONDS = 3;
const MANY_RECONNECTS = 2;
/** The worst quality that lasted for this share of the call is the quality of the call. */
const QUALITY_SHARE = 0.1;

const GOOD = "No problems were measured during the call.";
const UNEXPLAINED: Record<Quality, string> = {
  excellent: GOOD,
  good: GOOD,
  poor: "The connection was poor, and nothing was measured that explains it.",
  lost: "The connection was lost, and nothing was measured that explains it.",
};

type Finding = { cause: VerdictCause; sentence: string; evidence: Record<string, unknown> };

/**
 * Finds why a participation was bad. A cause that explains others is tested before them: an overloaded server loses
 * packets, and lost packets stall media.
 */
export function verdictOf(evidence: Evidence): CallVerdict {
  const quality = qualityOf(evidence.qualityMs);
  const finding = CAUSES.map((find) => find(evidence)).find((found) => found !== null);
  if (finding) return { quality, ...finding };
  return { quality, cause: "none", sentence: UNEXPLAINED[quality], evidence: {} };
}

function qualityOf(qualityMs: Evidence["qualityMs"]): Quality {
  const total = totalMsOf(qualityMs);
  const order: Quality[] = ["lost", "poor", "good"];
  return order.find((quality) => total > 0 && qualityMs[quality] / total >= QUALITY_SHARE) ?? "excellent";
}

const CAUSES: ((evidence: Evidence) => Finding | null)[] = [
  // A busy server is a cause only if the participant was affected.
  ({ serverCpuPercent, serverBusySeconds, ...effects }) =>
    serverCpuPercent === null ||
    serverCpuPercent < BUSY_CPU_PERCENT ||
    !isShareOf(serverBusySeconds, effects.qualityMs, BUSY_SHARE) ||
    !wasAffected(effects)
      ? null
      : {
          cause: "server_overload",
          sentence: `The media server was overloaded: its CPUs were ${Math.round(serverCpuPercent)} % busy.`,
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
  ({ missingKeysOf, missingKeySeconds }) =>
    missingKeySeconds < MISSING_KEY_SECONDS
      ? null
      : {
          cause: "missing_key",
          sentence: `The participant had no key for the encrypted tracks of ${missingKeysOf.join(", ")} and could not see or hear them for ${Math.round(missingKeySeconds)} seconds.`,
          evidence: { missingKeysOf, missingKeySeconds },
        },
  ({ limitedByCpuSeconds, qualityMs }) =>
    !lasted(limitedByCpuSeconds, LIMITED_SECONDS, qualityMs)
      ? null
      : {
          cause: "publisher_cpu",
          sentence: `For ${Math.round(limitedByCpuSeconds)} seconds, the participant's computer was too slow to encode its video in full quality.`,
          evidence: { limitedByCpuSeconds },
        },
  ({ reconnects }) =>
    reconnects < MANY_RECONNECTS
      ? null
      : {
          cause: "reconnects",
          sentence: `The participant lost the connection and reconnected ${reconnects} times.`,
          evidence: { reconnects },
        },
  (evidence) =>
    evidence.uplinkWaitMs === null && (evidence.rttMs ?? 0) >= FULL_LINK_WAIT_MS ? encoderLimited(evidence) : null,
  uplinkFull,
  uplinkLossy,
  serverLinkBad,
  ({ downlinkLossPercent }) =>
    downlinkLossPercent === null || downlinkLossPercent < LOSS_PERCENT
      ? null
      : {
          cause: "downlink_loss",
          sentence: `${Math.round(downlinkLossPercent)} % of the packets to the participant were lost.`,
          evidence: { downlinkLossPercent },
        },
  encoderLimited,
  downlinkNarrow,
  ({ rttMs, transport }) =>
    rttMs === null || rttMs < HIGH_RTT_MS
      ? null
      : transport === "relay"
        ? {
            cause: "relayed",
            sentence: `Media went through a relay, with a round-trip time of ${Math.round(rttMs)} ms.`,
            evidence: { rttMs, transport },
          }
        : {
            cause: "high_rtt",
            sentence: `The participant is far away or on a slow connection: the round-trip time was ${Math.round(rttMs)} ms.`,
            evidence: { rttMs },
          },
  ({ stalls, stalledMs }) =>
    stalls === 0 || stalledMs < STALLED_MS
      ? null
      : {
          cause: "media_stalled",
          sentence: `The participant was connected, but no media arrived for ${Math.round(stalledMs / 1000)} seconds.`,
          evidence: { stalls, stalledMs },
        },
];

/** Some encoders send more than the link can carry without detecting it, and their packets queue up. */
function uplinkFull(evidence: Evidence): Finding | null {
  const { uplinkWaitMs, rttMs, limitedByBandwidthSeconds } = evidence;
  // The queue must be most of the round trip. If the downlink is full as well, only the downlink is a certain cause.
  if (!isMostlyWaiting(uplinkWaitMs, rttMs) || downlinkNarrow(evidence)) return null;
  const sentence = `The participant's upload bandwidth was too low for what it sent: packets were queued for ${Math.round(uplinkWaitMs)} ms.`;
  return { cause: "uplink_narrow", sentence, evidence: { uplinkWaitMs, limitedByBandwidthSeconds } };
}

/** Distinguishes a lossy link from a full one, which also delays the packets that it does not drop. */
function uplinkLossy(evidence: Evidence): Finding | null {
  const { uplinkLossPercent, downlinkLossPercent, waitWhileLosingMs } = evidence;
  if (uplinkLossPercent === null || uplinkLossPercent < LOSS_PERCENT) return null;
  if (uplinkLossPercent < (downlinkLossPercent ?? 0)) return null;
  const lost = `${Math.round(uplinkLossPercent)} % of the packets`;
  if (isMostlyWaiting(waitWhileLosingMs, evidence.rttMs) && !downlinkNarrow(evidence)) {
    const sentence = `The participant's upload bandwidth was too low for what it sent: ${lost} were lost, and the others were queued for ${Math.round(waitWhileLosingMs)} ms.`;
    return { cause: "uplink_narrow", sentence, evidence: { uplinkLossPercent, waitWhileLosingMs } };
  }
  const sentence = `${lost} from the participant were lost.`;
  return { cause: "uplink_loss", sentence, evidence: { uplinkLossPercent } };
}

/** Loss on links between servers is not part of the loss measured on the path of the participant; it comes on top. */
function serverLinkBad(all: Evidence): Finding | null {
  const { serverLinkLossPercent, serverLinkRttMs, serverLinkNarrowSeconds, leastServerLinkBps } = all;
  if (lasted(serverLinkNarrowSeconds, NARROW_SECONDS, all.qualityMs) && leastServerLinkBps !== null) {
    const sentence = `For ${Math.round(serverLinkNarrowSeconds)} seconds, the bandwidth between two media servers of the room was too low for the video: it fell to ${Math.round(leastServerLinkBps / 1000)} kbit/s.`;
    return { cause: "server_link", sentence, evidence: { leastServerLinkBps, serverLinkNarrowSeconds } };
  }
  const evidence = { serverLinkLossPercent, serverLinkRttMs };
  if (serverLinkLossPercent !== null && serverLinkLossPercent >= Math.max(LOSS_PERCENT, all.downlinkLossPercent ?? 0)) {
    const sentence = `${Math.round(serverLinkLossPercent)} % of the packets were lost between two media servers of the room, on their way to the participant.`;
    return { cause: "server_link", sentence, evidence };
  }
  if (serverLinkRttMs === null || serverLinkRttMs < HIGH_RTT_MS) return null;
  const sentence = `The media servers of the room are far from each other: the round-trip time between them was ${Math.round(serverLinkRttMs)} ms.`;
  return { cause: "server_link", sentence, evidence };
}

function isMostlyWaiting(waitMs: number | null, rttMs: number | null): waitMs is number {
  return waitMs !== null && waitMs >= FULL_LINK_WAIT_MS && waitMs * 2 >= (rttMs ?? 0);
}

function encoderLimited({ limitedByBandwidthSeconds, qualityMs }: Evidence): Finding | null {
  if (!lasted(limitedByBandwidthSeconds, LIMITED_SECONDS, qualityMs)) return null;
  const sentence = `For ${Math.round(limitedByBandwidthSeconds)} seconds, the participant's upload bandwidth was too low for its video.`;
  return { cause: "uplink_narrow", sentence, evidence: { limitedByBandwidthSeconds } };
}

/** A low bandwidth estimate alone is not proof: when little is sent, the estimate cannot show that more would fit. */
function downlinkNarrow({ leastDownlinkBps, heldBackSeconds, qualityMs }: Evidence): Finding | null {
  const isNarrow = leastDownlinkBps !== null && leastDownlinkBps < NARROW_BPS;
  if (!isNarrow || !lasted(heldBackSeconds, NARROW_SECONDS, qualityMs)) return null;
  const sentence = `For ${Math.round(heldBackSeconds)} seconds, the participant's download bandwidth was too low for the video that it requested: it fell to ${Math.round(leastDownlinkBps / 1000)} kbit/s.`;
  return { cause: "downlink_narrow", sentence, evidence: { leastDownlinkBps, heldBackSeconds } };
}

function wasAffected(
  effects: Pick<Evidence, "qualityMs" | "uplinkLossPercent" | "downlinkLossPercent" | "stalledMs">,
): boolean {
  const { qualityMs, uplinkLossPercent, downlinkLossPercent, stalledMs } = effects;
  const lossPercent = Math.max(uplinkLossPercent ?? 0, downlinkLossPercent ?? 0);
  return qualityOf(qualityMs) !== "excellent" || lossPercent >= LOSS_PERCENT || stalledMs >= STALLED_MS;
}

/** Whether a limitation lasted for this many seconds, and for a relevant share of the call. */
function lasted(seconds: number, minSeconds: number, qualityMs: Evidence["qualityMs"]): boolean {
  return seconds >= minSeconds && isShareOf(seconds, qualityMs, LIMITED_SHARE);
}

function isShareOf(seconds: number, qualityMs: Evidence["qualityMs"], share: number): boolean {
  return seconds > 0 && seconds * 1_000 >= totalMsOf(qualityMs) * share;
}

function totalMsOf(qualityMs: Evidence["qualityMs"]): number {
  return Object.values(qualityMs).reduce((sum, ms) => sum + ms, 0);
}
