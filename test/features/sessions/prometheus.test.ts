import { afterAll, expect, test } from "bun:test";
import { metricsShown } from "../../../src/features/sessions/metrics/grafana.ts";
import { testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "./emit-events.ts";

const server = testServer();
afterAll(() => server.close());

test("[10] every metric of the Grafana dashboard exists", async () => {
  const { text } = await server.call("GET", "/metrics");
  const offered = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  // Metrics of the process, its disk and its cluster need a whole server: test/ops/alerts.test.ts.
  const ofProcess = /^stoa_(certificate|cluster|connections|database|descriptors|disk|event_loop|last_backup|sqlite)_/;
  expect(metricsShown().filter((name) => !offered.has(name) && !ofProcess.test(name))).toEqual([]);
});

test("[10] the Grafana dashboard has the parts that Grafana's import requires", async () => {
  const { status, body } = await server.call("GET", "/metrics/grafana.json");
  expect(status).toBe(200);
  const panels = body.panels as { id: number; title: string; targets: { expr: string }[] }[];
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { targets } of panels) expect(targets.length).toBeGreaterThan(0);
  expect(body.__inputs).toMatchObject([{ name: "DS_PROMETHEUS", pluginId: "prometheus" }]);
});

test("[10] connections, joins and chat are counted without delay, and unknown figures are absent", async () => {
  const { projectId, key } = await server.project();
  emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
  emitConnectionEvent(server, { projectId }, CONNECTED);
  emitConnectionEvent(server, { projectId }, { type: "left", reason: "left" });
  const body = { name: "lobby" };
  await server.call("POST", "/v1/chat/conversations", { key, body });
  await server.call("POST", "/v1/chat/conversations/lobby/messages", { key, body: { text: "hi" } });
  const { text } = await server.call("GET", "/metrics");
  expect(text).toContain("stoa_rtc_join_seconds_count 1");
  expect(text).toContain('stoa_rtc_connections_total{outcome="connected"} 1');
  expect(text).toContain('stoa_rtc_connections_total{outcome="left_left"} 1');
  expect(text).toContain('stoa_chat_events_total{type="message"} 1');
  // The answer's own line is counted after it is out.
  expect(text).toContain('stoa_http_requests_total{method="POST",route="/v1/chat/conversations",status="201"} 1');
  // No media node runs here, and an unknown count of packets is not zero.
  expect(text).not.toMatch(/^stoa_media_packets_in_total \d/m);
});
