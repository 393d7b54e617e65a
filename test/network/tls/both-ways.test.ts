import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { tlsStage, until } from "./stage.ts";

const MUCH_BYTES = 32 * 1_024 * 1_024;

describe.each([
  ["TCP", false],
  ["the loopback transport", true],
] as const)("through %s", (_name, within) => {
  let stage: Awaited<ReturnType<typeof tlsStage>>;
  beforeAll(async () => {
    stage = await tlsStage({ overLoopback: within });
  });
  afterAll(() => stage.close());

  const much = async () => (await (await stage.get("/much")).arrayBuffer()).byteLength;

  test("large bodies are forwarded unchanged in both directions", async () => {
    const body = new Uint8Array(8 * 1_024 * 1_024).map((_byte, at) => at % 251);
    const echoed = new Uint8Array(await (await stage.get("/echo", { method: "POST", body })).arrayBuffer());
    expect(Bun.hash(echoed)).toBe(Bun.hash(body));
    expect(await much()).toBe(MUCH_BYTES);
  });

  test("a client that does not read an endless response fills only its buffers, and others are served", async () => {
    const idle = await stage.tls();
    idle.on("error", () => {});
    idle.pause();
    idle.write("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await until(() => stage.pulled() > 0);
    for (let count = 0; count < 4; count++) expect(await much()).toBe(MUCH_BYTES);
    expect(stage.pulled()).toBeLessThan(MUCH_BYTES);
    idle.destroy();
  });

  test("WebSockets are forwarded in both directions", async () => {
    const socket = new WebSocket(`${stage.url.replace("https", "wss")}/socket`, {
      tls: { rejectUnauthorized: false },
    } as never);
    const answers: string[] = [];
    socket.onmessage = ({ data }) => void answers.push(String(data));
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    for (let count = 0; count < 100; count++) socket.send(`message ${count}`);
    await until(() => answers.length === 100);
    expect(answers[99]).toBe("message 99");
    socket.close();
  });
});
