import type { GaugeOf } from "../../../kernel/metrics.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { NodeLoad } from "../../../protocol/media/node-load.ts";

type MeasuredParts = {
  /** Load of the media node in this process; throws while it does not run. */
  mediaLoad: () => Promise<NodeLoad>;
  /** Pending webhook deliveries of all projects. */
  webhookQueue: () => number;
};

const MEDIA_GAUGES: Record<string, GaugeOf<NodeLoad>> = {
  stoa_media_packets_in_total: ["Packets received by the media node of this process", (load) => load.packetsIn],
  stoa_media_packets_out_total: ["Packets sent by the media node of this process", (load) => load.packetsOut],
  stoa_media_in_bits_per_second: ["Bits received a second", (load) => load.networkInBps],
  stoa_media_out_bits_per_second: ["Bits sent a second", (load) => load.networkOutBps],
  stoa_media_nacks_in_total: ["Packets that subscribers requested again", (load) => load.nacksIn],
  stoa_media_nacks_out_total: ["Packets that were requested again from publishers", (load) => load.nacksOut],
  stoa_media_keyframe_requests_in_total: ["Keyframes that subscribers requested", (load) => load.keyframesIn],
  stoa_media_keyframe_requests_out_total: [
    "Keyframes that were requested from publishers",
    (load) => load.keyframesOut,
  ],
  stoa_relay_links: ["Links between media workers that share rooms", ({ relays }) => relays?.links ?? 0],
  stoa_relay_streams: ["Streams that are sent from one media worker to another", ({ relays }) => relays?.streams ?? 0],
  stoa_media_cpu_percent: ["CPU of this process, of all cores", (load) => load.cpuPercent],
  stoa_media_refused_packets_total: [
    "Packets refused: forged, foreign, replayed or unreadable",
    ({ refused }) => Object.values(refused).reduce((sum, count) => sum + count, 0),
  ],
};

/** Figures for Prometheus that no single feature counts. The dashboard in grafana.ts shows them. */
export function exportMetrics({ bus, metrics }: Runtime, { mediaLoad, webhookQueue }: MeasuredParts): void {
  const joins = metrics.histogram(
    "stoa_rtc_join_seconds",
    "Seconds from the opened socket to flowing media",
    [0.05, 0.1, 0.2, 0.3, 0.6, 1, 2, 5, 10],
  );
  const connections = metrics.counter("stoa_rtc_connections_total", "Connections by outcome", ["outcome"]);
  const refused = metrics.counter("stoa_rtc_refused_total", "Joins that were refused, by code", ["code"]);

  bus.on("rtcConnection", ["connected", "reconnected", "left"], (event) => {
    if (event.type === "connected") joins.observe(event.joinTimeMs / 1000);
    connections.inc({ outcome: event.type === "left" ? `left_${event.reason}` : event.type });
  });
  bus.on("rtcRefused", ({ code }) => refused.inc({ code }));

  metrics.gaugeOf("stoa_webhook_deliveries_pending", "Webhook deliveries that wait", webhookQueue);
  metrics.gaugesOf(MEDIA_GAUGES, mediaLoad);
}
