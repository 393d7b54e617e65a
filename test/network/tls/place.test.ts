import { expect, test } from "bun:test";
import { createIceServers, ownTurnUrls, turnSecret } from "../../../src/features/rooms/ice-servers.ts";
import { type Config, loadConfig } from "../../../src/kernel/config/index.ts";
import { listenAddresses } from "../../../src/kernel/config/listen-addresses.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";
import { passwordOf } from "../../../src/network/turn/credentials.ts";
import { closed, secured, tlsStage } from "./stage.ts";

const DOMAIN = "rtc.example.com";
const FILES = { TLS_CERT: "cert.pem", TLS_KEY: "key.pem" };

/** The configuration from an operator's environment. */
const configOf = (env: Record<string, string>): Config => loadConfig({ env }).config;

test("[22] the settings of the TLS port have their documented defaults", () => {
  expect(configOf({ DOMAIN })).toMatchObject({
    PUBLIC_URL: `https://${DOMAIN}`,
    HOST: "127.0.0.1",
    PORT: 7000,
    EDGE_PORT: 443,
    HTTP_PORT: 80,
    ACME_CHALLENGE: "auto",
    TURN: "on",
    TURN_UDP_PORT: 0,
    TURN_MAX_ALLOCATIONS: 2_000,
    TURN_MAX_ALLOCATIONS_PER_SESSION: 4,
    TURN_MAX_BPS: 8_000_000,
  });
  expect(configOf({ DOMAIN, EDGE_PORT: "8443" }).PUBLIC_URL).toBe(`https://${DOMAIN}:8443`);
  expect(configOf({ DOMAIN: "RTC.Example.com" }).PUBLIC_URL).toBe(`https://${DOMAIN}`);
  expect(configOf({ DOMAIN, PUBLIC_URL: "https://outer.example.com" }).PUBLIC_URL).toBe("https://outer.example.com");
});

test("[22] with a domain TLS listens on every address, and plain HTTP on loopback", () => {
  const plain = { hostname: "127.0.0.1", port: 7000 };
  expect(listenAddresses(configOf({}))).toBeNull();
  expect(listenAddresses(configOf({ DOMAIN }))).toEqual({ tls: { hostname: "::", port: 443 }, plain });
  expect(listenAddresses(configOf({ DOMAIN, ...FILES }))).toEqual({ tls: { hostname: "::", port: 443 }, plain });
  expect(listenAddresses(configOf({ ...FILES, EDGE_PORT: "5349" }))).toEqual({
    tls: { hostname: "::", port: 5349 },
    plain,
  });
  // Certificate files alone put https where HTTP was.
  expect(listenAddresses(configOf({ ...FILES, HOST: "0.0.0.0" }))).toEqual({
    tls: { hostname: "0.0.0.0", port: 7000 },
    plain: { hostname: "127.0.0.1", port: 0 },
  });
});

const tls = (host: string, port: number) => `turns:${host}:${port}?transport=tcp`;

const NAMED: [string, Record<string, string>, string[]][] = [
  ["the domain, at 443", { DOMAIN }, [tls(DOMAIN, 443)]],
  ["in small letters", { DOMAIN: "RTC.example.COM" }, [tls(DOMAIN, 443)]],
  ["at another port", { DOMAIN, EDGE_PORT: "8443" }, [tls(DOMAIN, 8_443)]],
  ["with certificate files", { DOMAIN, ...FILES }, [tls(DOMAIN, 443)]],
  [
    "behind a proxy that passes TLS on from another port",
    { DOMAIN, EDGE_PORT: "8443", PUBLIC_URL: `https://${DOMAIN}` },
    [tls(DOMAIN, 443)],
  ],
  [
    "beside a proxy that ends TLS itself",
    { ...FILES, EDGE_PORT: "5349", PUBLIC_URL: `https://${DOMAIN}` },
    [tls(DOMAIN, 5_349)],
  ],
  ["without a domain, as PUBLIC_URL says", { ...FILES, PUBLIC_URL: `https://${DOMAIN}:7000` }, [tls(DOMAIN, 7_000)]],
  ["without a name, not at all", { ...FILES }, []],
  ["without TLS, not at all", { PUBLIC_URL: `https://${DOMAIN}` }, []],
  ["switched off, not at all", { DOMAIN, TURN: "off" }, []],
  [
    "even without TLS, when asked for",
    { DOMAIN, TURN_UDP_PORT: "3478" },
    [tls(DOMAIN, 443), `turn:${DOMAIN}:3478?transport=udp`, `turn:${DOMAIN}:3478?transport=tcp`],
  ],
];

test.each(NAMED)("[22] clients are given the relay: %s", (_how, env, urls) => {
  expect(ownTurnUrls(configOf(env))).toEqual(urls);
});

test("[22] the server's relay comes first, with the session's credentials, then TURN_URLS with theirs", () => {
  const keyring = createKeyring("a secret of this server, long enough for keys");
  const config = configOf({ DOMAIN, TURN_URLS: "turn:turn.example.com:3478", TURN_SECRET: "north" });
  const [own, other, ...more] = createIceServers({ config, keyring })(
    { id: "session-1", identity: "alice" },
    1_700_000_000_000,
  );
  expect(own).toEqual({
    urls: [tls(DOMAIN, 443)],
    username: "1700000000:session-1",
    credential: passwordOf(turnSecret(keyring), "1700000000:session-1"),
  });
  expect(other).toEqual({
    urls: ["turn:turn.example.com:3478"],
    username: "1700000000:alice",
    credential: passwordOf("north", "1700000000:alice"),
  });
  expect(more).toEqual([]);
  const alone = createIceServers({ config: { ...config, TURN: "off" }, keyring })({ id: "s", identity: "a" }, 1);
  expect(alone.map(({ urls }) => urls)).toEqual([["turn:turn.example.com:3478"]]);
});

test("[22] with the relay off, TURN connections are closed and HTTP is served", async () => {
  const stage = await tlsStage({ turn: null });
  try {
    const socket = await secured(stage.multiplexer.port);
    socket.on("error", () => {});
    const gone = closed(socket);
    socket.write(Buffer.from([0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, ...new Uint8Array(12)]));
    await gone;
    expect((await stage.get("/")).status).toBe(200);
    expect((await stage.multiplexer.stats()).turn).toBeNull();
  } finally {
    await stage.close();
  }
});
