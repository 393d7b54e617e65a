import { expect } from "bun:test";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../ops/proxies.ts";
import { blockFor } from "./blocks.ts";

export const SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes, ok").toString("base64")}`;
export const BODY = JSON.stringify({ id: "evt_1", type: "message.created", data: { text: "ünïcode" } });

const now = () => Math.floor(Date.now() / 1000);
const sign = (at: number, body: string, secret = SECRET) =>
  `t=${at},v1=${createHmac("sha256", secret).update(`${at}.${body}`).digest("hex")}`;

/** Runs a receiver of the webhook guide in a folder of its own and sends it valid and invalid signatures. */
export async function checkReceiver(file: string, command: string[], build?: (folder: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-receivers-"));
  try {
    writeFileSync(join(folder, file), blockFor("web/docs/webhooks.md", file));
    build?.(folder);
    await exchange(folder, command);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function exchange(folder: string, command: string[]): Promise<void> {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), SIGNING_SECRET: SECRET };
  const child = Bun.spawn(command, { cwd: folder, env, stdout: "pipe" });
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
