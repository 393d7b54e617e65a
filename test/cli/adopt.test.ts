import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { RULES, rulesTable } from "../../src/cli/adopt/livekit-settings.ts";
import { readLivekitConfig } from "../../src/cli/adopt/read-livekit.ts";
import { PROGRAM, ROOT, type RunningStoa, startStoa, stoa } from "./stoa.ts";

const SECRET = "a-secret-of-the-old-server-of-some-length";
const CONFIG = `# of the old server
port: 7880
bind_addresses:
  - ""
rtc:
  udp_port: 7882-7890
  tcp_port: 7881
  node_ip: 192.0.2.7
  use_external_ip: false
  turn_servers:
    - host: turn.example.com
      port: 443
      protocol: tls
      secret: the-shared-secret
redis:
  address: localhost:6379
keys:
  APIold: ${SECRET}
logging:
  level: warn
  json: true
room:
  max_participants: 0
  empty_timeout: 300
  departure_timeout: 60
webhook:
  api_key: APIold
  urls:
    - https://example.com/livekit
region: "no region!"
what_is_this: 1
`;

const folder = mkdtempSync(join(tmpdir(), "stoa-adopt-"));
const dataDir = join(folder, "data");
let server: RunningStoa;

beforeAll(async () => {
  const ports = ["--port", "0", "--media-udp-port", "0"];
  server = await startStoa([...PROGRAM, "serve", ...ports, "--data-dir", dataDir]);
  await stoa(["admin", "create", "op@example.com", "--data-dir", dataDir], { stdin: "a long password\n" });
}, 60_000);
afterAll(() => {
  server.child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

function fileOf(text: string): string {
  const file = join(folder, `${crypto.randomUUID()}.yaml`);
  writeFileSync(file, text);
  return file;
}

const adopt = (file: string, ...more: string[]) =>
  stoa(["adopt", file, "--data-dir", dataDir, "--project", "shop", "--create-project", ...more], { cwd: folder });

async function validate(key: string, secret: string): Promise<number> {
  const token = await new SignJWT({ video: { roomJoin: true, room: "moved" } })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(key)
    .setSubject("ann")
    .setIssuedAt()
    .setExpirationTime("10m")
    .sign(Buffer.from(secret));
  return (await fetch(`${server.url}/rtc/v1/validate?access_token=${token}`)).status;
}

test("adopt explains every line of the file without its secrets, and changes nothing", async () => {
  const { code, out } = await adopt(fileOf(CONFIG), "--explain");
  expect(code).toBe(0);
  const rows = out.split("\n").map((line) => line.split(/ {2,}/));
  const of = (path: string) => rows.find(([, name]) => name === path)?.filter((_, column) => column !== 1);
  expect(of("port")).toEqual(["2", "PORT = 7880"]);
  expect(of("bind_addresses")).toEqual(["3", 'HOST = "0.0.0.0"']);
  expect(of("rtc.udp_port")).toEqual(["6", "MEDIA_UDP_PORT = 7882"]);
  expect(of("rtc.node_ip")).toEqual(["8", 'PUBLIC_IP = ["192.0.2.7"]']);
  const turns = 'TURN_URLS = ["turns:turn.example.com:443?transport=tcp"]';
  expect(of("rtc.turn_servers")).toEqual(["10", `${turns}; TURN_SECRET = …`]);
  expect(of("redis.address")?.[1]).toStartWith("not needed");
  expect(of("keys.APIold")).toEqual(["18", "imported"]);
  expect(of("logging.json")).toEqual(["21", 'LOG_FORMAT = "json"']);
  expect(of("room.max_participants")?.[1]).toBe("SIGNALING_MAX_PARTICIPANTS_PER_ROOM = 10000");
  expect(of("room.empty_timeout")?.[1]).toBe("the same here");
  expect(of("room.departure_timeout")?.[1]).toStartWith("20 seconds here");
  expect(of("region")?.[1]).toContain("SFU_REGION does not accept this value");
  expect(of("what_is_this")).toEqual(["31", "not known here"]);
  for (const secret of [SECRET, "the-shared-secret"]) expect(out).not.toContain(secret);
  expect(existsSync(join(folder, "stoa.toml"))).toBe(false);
  expect(await validate("APIold", SECRET)).toBe(401);
});

test("adopted keys work with their old secrets, webhooks are registered, and the written configuration is valid", async () => {
  const file = fileOf(CONFIG);
  const { code, out } = await adopt(file);
  expect(code).toBe(0);
  expect(out).toContain("Imported the key APIold.");
  expect(out).toContain("Webhooks go to https://example.com/livekit.");
  expect(await validate("APIold", SECRET)).toBe(200);
  expect(await validate("APIold", `${SECRET}x`)).toBe(401);

  const written = join(folder, "stoa.toml");
  expect(statSync(written).mode & 0o777).toBe(0o600);
  const printed = await stoa(["config", "print", "--config", written]);
  expect([printed.code, printed.err]).toEqual([0, ""]);
  expect(Bun.TOML.parse(readFileSync(written, "utf8"))).toMatchObject({ PORT: 7880, LOG_LEVEL: "warn" });

  const args = ["--project", "shop", "--environment", "production", "--data-dir", dataDir];
  const key = (await stoa(["keys", "create", ...args])).out.trim();
  const listed = await fetch(`${server.url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
  expect(await listed.json()).toMatchObject([{ url: "https://example.com/livekit", format: "livekit", events: [] }]);
  const asOurs = await fetch(`${server.url}/v1/webhooks`, {
    headers: { authorization: `Bearer svk_prod_APIold.${SECRET}` },
  });
  expect(asOurs.status).toBe(401);

  expect(await adopt(file)).toMatchObject({ code: 1, err: expect.stringContaining("stoa.toml exists") });
  const again = await adopt(file, "--output", join(folder, "again.toml"));
  expect(again.out).toContain("The key APIold was imported already.");
  expect(again.out).not.toContain("Webhooks go to");
}, 60_000);

test("a file that cannot be read is refused with the reason", () => {
  const refused: [string, string][] = [
    ["keys: [", "is no YAML"],
    ["- a\n- b", "has no settings"],
    ["keys:\n  APInumber: 1234567890123456", "the secret of the key APInumber must be a text"],
    ["webhook:\n  urls: [https://example.com]", "no webhook.api_key"],
    ["key_file: /nonexistent/keys.yaml", "there is no file /nonexistent/keys.yaml"],
  ];
  for (const [text, reason] of refused) expect(() => readLivekitConfig(fileOf(text))).toThrow(reason);
  expect(() => readLivekitConfig(join(folder, "none.yaml"))).toThrow("there is no file");
  const keyFile = fileOf(`APIfiled: ${SECRET}`);
  expect(readLivekitConfig(fileOf(`key_file: ${keyFile}`)).keys).toEqual([{ apiKey: "APIfiled", apiSecret: SECRET }]);
});

test("keys that cannot be imported are refused with the reason, and nothing is written", async () => {
  const refused: [string, string][] = [
    [
      `keys:\n  APInew: ${SECRET}\n  APIshort: secret`,
      "the secret of the key APIshort: must have 16 to 512 characters",
    ],
    [`keys:\n  APIold: ${SECRET}-of-another`, "APIold exists already"],
    ["webhook:\n  api_key: none\n  urls: [https://example.com]", "which is not among the keys"],
  ];
  const output = join(folder, "refused.toml");
  for (const [text, reason] of refused) {
    const { code, err } = await adopt(fileOf(text), "--output", output);
    expect([code, err]).toEqual([1, expect.stringContaining(reason)]);
  }
  expect(existsSync(output)).toBe(false);
  expect(await validate("APInew", SECRET)).toBe(401);
}, 60_000);

test("the guide has the table of all settings", () => {
  expect(readFileSync(join(ROOT, "web/docs/livekit-migration.md"), "utf8")).toContain(rulesTable());
  expect(new Set(RULES.map(({ path }) => path)).size).toBe(RULES.length);
});
