import type { Runtime } from "../../kernel/runtime.ts";
import type { NodeLoad } from "../../protocol/media/node-load.ts";

type MeasuredParts = {
  /** Load of the media node inside this process; throws while it does not run. */
  mediaLoad: () => Promise<NodeLoad>;
  /** Deliveries that wait, over all projects. */
  webhookQueue: () => number;
};

/** Figures for Prometheus that no single feature counts by itself. The dashboard in grafana.ts shows them. */
export function measure({ bus, metrics }: Runtime, { mediaLoad, webhookQueue }: MeasuredParts): void {
  const joins = metrics.histogram(
    "stoa_rtc_join_seconds",
    "From the opened socket to flowing media",
    [0.05, 0.1, 0.2, 0.3, 0.6, 1, 2, 5, 10],
  );
  const connections = metrics.counter("stoa_rtc_connections_total", "Connections by how they went", ["outcome"]);
  const refused = metrics.counter("stoa_rtc_refused_total", "Joins that were refused, by code", ["code"]);

  bus.on("rtcConnection", ["connected", "reconnected", "left"], (fact) => {
    if (fact.type === "connected") joins.observe(fact.joinTimeMs / 1000);
    connections.inc({ outcome: fact.type === "left" ? `left_${fact.reason}` : fact.type });
  });
  bus.on("rtcRefused", ({ code }) => refused.inc({ code }));

  metrics.gaugeOf("stoa_webhook_deliveries_pending", "Webhook deliveries that wait", webhookQueue);
  metrics.gaugesOf(
    {
      stoa_media_packets_in_total: "Packets received by the media node of this process",
      stoa_media_packets_out_total: "Packets sent by the media node of this process",
      stoa_media_in_bits_per_second: "Bits received a second",
      stoa_media_out_bits_per_second: "Bits sent a second",
      stoa_media_nacks_in_total: "Packets that viewers asked for again",
      stoa_media_nacks_out_total: "Packets that publishers were asked for again",
      stoa_media_keyframe_requests_in_total: "Keyframes that viewers asked for",
      stoa_media_keyframe_requests_out_total: "Keyframes that publishers were asked for",
      stoa_media_cpu_percent: "CPU of this process, of all cores",
      stoa_media_refused_packets_total: "Packets refused: forged, foreign, replayed or unreadable",
    },
    async () => {
      const load = await mediaLoad();
      return {
        stoa_media_packets_in_total: load.packetsIn,
        stoa_media_packets_out_total: load.packetsOut,
        stoa_media_in_bits_per_second: load.networkInBps,
        stoa_media_out_bits_per_second: load.networkOutBps,
        stoa_media_nacks_in_total: load.nacksIn,
        stoa_media_nacks_out_total: load.nacksOut,
        stoa_media_keyframe_requests_in_total: load.keyframesIn,
        stoa_media_keyframe_requests_out_total: load.keyframesOut,
        stoa_media_cpu_percent: load.cpuPercent,
        stoa_media_refused_packets_total: Object.values(load.refused).reduce((sum, count) => sum + count, 0),
      };
    },
  );
}
