import { describe, expect, test } from "bun:test";
import { type ConnectionTimeline, clustersOf, segmentsOf } from "../../../web/dashboard/connection-timeline.ts";
import { csvOf } from "../../../web/dashboard/csv.ts";
import { browserName } from "../../../web/dashboard/parts/frame/browser.tsx";
import { extended, stacked } from "../../../web/dashboard/parts/plot-options.ts";

describe("[8] a table saved as CSV", () => {
  test("quotes separators and prevents formulas", () => {
    const rows = [
      { name: 'a "b", c', note: "=HYPERLINK(1)" },
      { name: "two\nlines", note: "-1+1" },
      { name: "@sum", note: null },
      { name: "\tx", note: { deep: 1 } },
    ];
    expect(csvOf(["name", "note"], rows)).toBe(
      'name,note\r\n"a ""b"", c",\'=HYPERLINK(1)\r\n"two\nlines",\'-1+1\r\n\'@sum,\r\n\'\tx,"{""deep"":1}"\r\n',
    );
  });
});

describe("[8] the name of a browser", () => {
  const webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
  test.each([
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/140.0.0.0 Safari/537.36`, "Chrome 140 on Windows"],
    [`Mozilla/5.0 (Windows NT 10.0) ${webkit} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0`, "Edge 140 on Windows"],
    [`Mozilla/5.0 (Linux; Android 16; K) ${webkit} Chrome/141.0.0.0 Mobile Safari/537.36`, "Chrome 141 on Android"],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox 143 on Linux"],
    [
      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
      "Safari 18 on macOS",
    ],
    [
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1",
      "Safari 18 on iPhone",
    ],
    ["curl/8.9.1", "curl/8.9.1"],
    ["", ""],
  ])("%s", (userAgent, name) => expect(browserName(userAgent)).toBe(name));
});

describe("[8] plots", () => {
  test("stacked bars add the values of the series drawn over them", () => {
    expect(
      stacked([
        [3, 0, 1],
        [1, 2, 0],
      ]),
    ).toEqual([
      [4, 2, 1],
      [1, 2, 0],
    ]);
    expect(stacked([[5]])).toEqual([[5]]);
    expect(stacked([])).toEqual([]);
  });

  test("every level, including the last, extends to the end of its step", () => {
    expect(extended([60, 120], [[1, 2]])).toEqual([
      [60, 120, 180],
      [1, 2, 2],
    ]);
  });
});

describe("[8] a connection's timeline", () => {
  const at = (seconds: number) => new Date(seconds * 1000).toISOString();
  const timeline: ConnectionTimeline = {
    state: "DISCONNECTED",
    startedAt: at(0),
    connectedAt: at(1),
    disconnectedAt: at(100),
    events: [
      { type: "connection_started", source: "server", timestamp: at(0), data: null },
      { type: "connected", source: "server", timestamp: at(1), data: null },
      { type: "connected", source: "client", timestamp: at(2), data: null },
      { type: "track_published", source: "server", timestamp: at(2), data: null },
      { type: "reconnecting", source: "server", timestamp: at(40), data: null },
      { type: "reconnected", source: "server", timestamp: at(50), data: null },
      { type: "disconnected", source: "server", timestamp: at(100), data: null },
    ],
  };

  test("events at nearly the same time form one mark in their lane", () => {
    const marks = clustersOf(timeline, "Connection", 100_000).map(({ at: time, events }) => [
      time / 1000,
      events.length,
    ]);
    expect(marks).toEqual([
      [0, 3],
      [40, 1],
      [50, 1],
      [100, 1],
    ]);
    expect(clustersOf(timeline, "Tracks", 100_000).map(({ events }) => events.map(({ index }) => index))).toEqual([
      [3],
    ]);
    expect(clustersOf(timeline, "Errors", 100_000)).toEqual([]);
  });

  test("states follow each other without a gap", () => {
    expect(segmentsOf(timeline, 100_000).map(({ state, from, until }) => [state, from / 1000, until / 1000])).toEqual([
      ["CONNECTING", 0, 1],
      ["CONNECTED", 1, 40],
      ["RECONNECTING", 40, 50],
      ["CONNECTED", 50, 100],
    ]);
  });
});
