/** The server of the hostile bench: its own process in its own network. Prints where it is and a key, then serves. */
import { createPasswords } from "../../../src/features/accounts/passwords.ts";
import { start } from "../../../src/server.ts";
import { testConfig } from "../../harness/test-config.ts";
import { makeCertificate } from "../../ops/certificate.ts";
import { watchTurns } from "./stalls.ts";

const [host = "127.0.0.1", dataDir = ""] = process.argv.slice(2);
// Honest users come from many addresses; here they share one, whose budgets therefore are those of many.
const many = { CHAT_CONNECTION_RATE_LIMIT: 100_000, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 100_000 };
// The server has a network of its own, so the port is free.
const EDGE_PORT = 8443;
const { cert: TLS_CERT, key: TLS_KEY } = await makeCertificate(dataDir, "hostile", host);
const config = testConfig({
  TLS_CERT,
  TLS_KEY,
  EDGE_PORT,
  HOST: host,
  PORT: 0,
  DATA_DIR: dataDir,
  LOG_LEVEL: "silent",
  PUBLIC_IP: [host],
  RATE_LIMIT_RTC_TOKENS: 100_000,
  CHAT_SEND_RATE_LIMIT: 600,
  ...many,
});
const { runtime, services, url, media } = await start(config);
/** A tenant: a user with an account, a project and its key. */
const tenant = (email: string, passwordHash: string | null) =>
  runtime.write((unit) => {
    const owner = services.users.create(unit, { email, passwordHash, emailVerified: true, isOperator: false });
    const { id } = services.projects.create(unit, owner.id, { name: "bench" });
    return services.apiKeys.create(unit, id, { name: "bench", environment: "DEVELOPMENT" });
  });
const { key } = await tenant("owner@example.com", null);
const account = { email: "mallory@example.com", password: "a password of mallory's" };
const hostile = await tenant(account.email, await createPasswords().hash(account.password));
const livekit = { issuer: hostile.publicId, secret: services.apiKeys.signingSecret(hostile.publicId) };
const ports = { mediaPort: media.ports[0], tlsPort: EDGE_PORT };
console.log(JSON.stringify({ url, key, hostileKey: hostile.key, livekit, account, ...ports }));
const { stalls, late, busy } = watchTurns();
// Since it was asked last.
process.on("SIGUSR2", () => console.log(JSON.stringify({ late: late(), busy: busy(), memory: process.memoryUsage() })));
process.on("SIGINT", () => {
  if (process.env.STOA_BENCH_PROFILE) console.error(JSON.stringify({ stalls: stalls() }));
  process.exit();
});
