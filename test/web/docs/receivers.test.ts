import { afterAll, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { freePort } from "../../ops/proxies.ts";
import { blockFor } from "./blocks.ts";

const SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes, ok").toString("base64")}`;
const BODY = JSON.stringify({ id: "evt_1", type: "message.created", data: { text: "ünïcode" } });

const folder = mkdtempSync(join(tmpdir(), "stoa-receivers-"));
afterAll(() => rmSync(folder, { recursive: true }));

const now = () => Math.floor(Date.now() / 1000);
const sign = (at: number, body: string, secret = SECRET) =>
  `t=${at},v1=${createHmac("sha256", secret).update(`${at}.${body}`).digest("hex")}`;

const LANGUAGES: [string, string[]][] = [
  ["receiver.mjs", ["node", "receiver.mjs"]],
  ["receiver.py", ["python3", "receiver.py"]],
  // It is built first, because `go run` would leave its child process behind.
  ["receiver.go", ["./receiver"]],
];

describe.each(LANGUAGES)("the guide's %s", (file, command) => {
  test("accepts only recent requests with a valid signature", async () => {
    writeFileSync(join(folder, file), blockFor("web/docs/webhooks.md", file));
    if (file === "receiver.go") build();
    const port = await freePort();
    const child = Bun.spawn(command, {
      cwd: folder,
      env: {
        ...process.env,
        PORT: String(port),
        SIGNING_SECRET: SECRET,
        GO111MODULE: "off",
        GOCACHE: join(folder, "go"),
      },
      stdout: "pipe",
    });
    try {
      const post = async (signature: string | null, body = BODY): Promise<number> => {
        const headers: Record<string, string> = signature === null ? {} : { "svc-signature": signature };
        return (await fetch(`http://127.0.0.1:${port}/hook`, { method: "POST", body, headers })).status;
      };
      await listening(port);
      expect(await post(sign(now(), BODY))).toBe(204);
      // During a key rotation there are two signatures, and one valid signature is enough.
      const [at, old] = sign(now(), BODY, "whsec_old").split(",");
      expect(await post(`${at},${old},${sign(now(), BODY).split(",")[1]}`)).toBe(204);
      expect(await post(sign(now(), BODY), `${BODY} `)).toBe(400);
      expect(await post(sign(now(), BODY, "whsec_other"))).toBe(400);
      expect(await post(sign(now() - 400, BODY))).toBe(400);
      expect(await post(sign(now() + 400, BODY))).toBe(400);
      for (const nonsense of [null, "", "v1=", "t=,v1=", "t=x,v1=00", `t=${now()}`])
        expect(await post(nonsense)).toBe(400);
      expect(await firstLine(child.stdout)).toBe("evt_1 message.created");
    } finally {
      child.kill("SIGKILL");
      await child.exited;
    }
  }, 120_000);
});

test("the Go receiver is formatted by gofmt", () => {
  const { stdout } = Bun.spawnSync(["gofmt"], { stdin: Buffer.from(blockFor("web/docs/webhooks.md", "receiver.go")) });
  expect(stdout.toString()).toBe(blockFor("web/docs/webhooks.md", "receiver.go"));
});

test("the Standard Webhooks library accepts the same secret", () => {
  const webhook = new Webhook(SECRET);
  const at = new Date();
  const headers = {
    "webhook-id": "evt_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": webhook.sign("evt_1", at, BODY),
  };
  expect(webhook.verify(BODY, headers)).toEqual(JSON.parse(BODY));
});

function build(): void {
  const env = { ...process.env, GO111MODULE: "off", GOCACHE: join(folder, "cache") };
  const { exitCode, stderr } = Bun.spawnSync(["go", "build", "-o", "receiver", "receiver.go"], { cwd: folder, env });
  if (exitCode !== 0) throw new Error(stderr.toString());
}

/** Polls until the port accepts connections, because the programs print nothing when they start. */
async function listening(port: number): Promise<void> {
  for (;;) {
    const opened = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } }).catch(() => null);
    if (opened) {
      opened.end();
      return;
    }
    await Bun.sleep(50);
  }
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk);
    if (text.includes("\n")) break;
  }
  return text.split("\n")[0] ?? "";
}
