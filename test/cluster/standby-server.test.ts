import { expect, test } from "bun:test";
import { serveStandby } from "../../src/cluster/standby-server.ts";

function standby(token: string | undefined) {
  return serveStandby({
    hostname: "127.0.0.1",
    port: 0,
    state: () => ({ role: "standby" }) as never,
    reasons: () => ({ standby: "follows" }),
    authentication: {} as never,
    abstain: () => false,
    snapshot: async () => new Response(),
    metrics: async () => "stoa_role 0",
    metricsAccess: { token, publicUrl: undefined },
  });
}

test.each([
  [undefined, {}, 200],
  // A web page whose host name was rebound to this machine.
  [undefined, { host: "rebound.example:7000" }, 503],
  // A client of a reverse proxy on this machine.
  [undefined, { "x-forwarded-for": "203.0.113.9" }, 503],
  ["a token of the operator", {}, 503],
  ["a token of the operator", { authorization: "Bearer a token of the operator", host: "rebound.example" }, 200],
])(
  "a standby shows metrics under the same conditions as a leader: token %p, headers %p",
  async (token, headers, status) => {
    const server = standby(token);
    try {
      const response = await fetch(new URL("/metrics", server.url), { headers });
      expect([response.status, (await response.text()) === "stoa_role 0"]).toEqual([status, status === 200]);
    } finally {
      await server.stop(true);
    }
  },
);
