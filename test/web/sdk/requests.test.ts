import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { RequestError } from "../../../src/protocol/data/requests.ts";
import { DataRoom } from "./data-room.ts";

let room: DataRoom;
beforeEach(() => {
  room = new DataRoom();
});
afterEach(() => {
  room.close();
  jest.useRealTimers();
});

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "done",
    (error) => (error instanceof RequestError ? error.code : String(error)),
  );

test("a request is answered, whatever its size, and knows who asks", async () => {
  const [ann, ben] = [room.join("ann"), room.join("ben")];
  ben.data.requests.onRequest("echo", (payload, from) => `${from}:${payload}`);
  const ask = (payload: string) => ann.data.requests.request("ben", "echo", payload);
  expect(await ask("hi")).toBe("ann:hi");
  expect(await ask("")).toBe("ann:");
  const large = "é".repeat(100_000);
  expect((await ask(large)) === `ann:${large}`).toBe(true);
  expect([ann.errors, ben.errors, ben.messages]).toEqual([[], [], []]);
});

test("each failure has LiveKit's code", async () => {
  const [ann, ben] = [room.join("ann"), room.join("ben")];
  const { requests } = ben.data;
  requests.onRequest("refuses", () => {
    throw new RequestError(42, "no seat left", "A4");
  });
  requests.onRequest("fails", () => {
    throw new TypeError("secret detail");
  });
  requests.onRequest("talks", () => "x".repeat(1_100_000));
  const ask = (to: string, method: string, payload = "") => ann.data.requests.request(to, method, payload);
  expect(await codeOf(ask("ben", "unknown"))).toBe(1400);
  expect(await codeOf(ask("nobody", "echo"))).toBe(1401);
  expect(await codeOf(ask("ben", "echo", "x".repeat(1_100_000)))).toBe(1402);
  expect(await codeOf(ask("ben", "talks"))).toBe(1504);
  const refused = await ask("ben", "refuses").catch((error) => error);
  expect(refused).toMatchObject({ code: 42, message: "no seat left", data: "A4" });
  const failed = await ask("ben", "fails").catch((error) => error);
  expect([failed.code, JSON.stringify([failed.message, failed.data]).includes("secret")]).toEqual([1500, false]);
  expect(ben.errors.map(String)).toEqual(["TypeError: secret detail"]);
  expect(() => requests.onRequest("fails", () => "")).toThrow("have a handler already");
});

test("1503 when the receiver leaves, 1505 when the session ends, 1404 for another version", async () => {
  const [ann, ben] = [room.join("ann"), room.join("ben")];
  ben.data.requests.onRequest("never", () => new Promise(() => {}));
  const asked = codeOf(ann.data.requests.request("ben", "never"));
  await Bun.sleep(20);
  ann.data.participantLeft("ben");
  expect(await asked).toBe(1503);
  const again = codeOf(ann.data.requests.request("ben", "never"));
  await Bun.sleep(20);
  ann.data.newSession();
  expect(await again).toBe(1505);
  const responses: object[] = [];
  const other = room.join("eve");
  other.data.requests.receive = (packet) => responses.push(packet.response ?? packet.requestAck ?? {}) > 0;
  ben.data.requests.receive({ from: "eve", request: { id: "r", method: "never", version: 9 } });
  while (responses.length < 2) await Bun.sleep(5);
  expect(responses).toEqual([{ id: "r" }, { id: "r", error: { code: 1404, message: expect.any(String), data: "" } }]);
});

test("only the participant that was asked can answer", async () => {
  const [ann, ben, eve] = [room.join("ann"), room.join("ben"), room.join("eve")];
  let id = "";
  const { requests } = ben.data;
  const receive = requests.receive.bind(requests);
  requests.receive = (packet) => {
    id = packet.request?.id ?? id;
    return receive(packet);
  };
  let answer: (text: string) => void = () => {};
  requests.onRequest("ask", () => new Promise((resolve) => (answer = resolve)));
  const asked = ann.data.requests.request("ben", "ask");
  while (id === "") await Bun.sleep(5);
  ann.data.requests.receive({ from: eve.identity, response: { id, payload: "forged" } });
  answer("true");
  expect(await asked).toBe("true");
});

test("more requests than may be under way together are all answered, and none is lost to a limit", async () => {
  const [ann, ben] = [room.join("ann"), room.join("ben")];
  ben.data.requests.onRequest("add", (payload) => String(Number(payload) + 1));
  const asked = Array.from({ length: 450 }, (_, n) => ann.data.requests.request("ben", "add", String(n)));
  expect(await Promise.all(asked)).toEqual(asked.map((_, n) => String(n + 1)));
  for (const who of ["ann", "ben"]) expect(room.room.find(who)?.data.refused).toBe(0);
}, 60_000);

test("a request fails with 1502 without a response in time, and with 1501 without an acknowledgement", async () => {
  jest.useFakeTimers();
  const calm = new DataRoom(() => 0);
  const [ann, ben] = [calm.join("ann"), calm.join("ben")];
  ben.data.requests.onRequest("never", () => new Promise(() => {}));
  const settled: unknown[] = [];
  void codeOf(ann.data.requests.request("ben", "never", "", { timeoutMs: 9_000 })).then((code) => settled.push(code));
  const pass = async (ms: number) => {
    for (let at = 0; at < ms; at += 50) {
      jest.advanceTimersByTime(50);
      for (let n = 0; n < 50; n++) await Promise.resolve();
    }
  };
  await pass(8_900);
  expect(settled).toEqual([]);
  await pass(200);
  expect(settled).toEqual([1502]);
  ben.link.isSlow = true;
  void codeOf(ann.data.requests.request("ben", "never")).then((code) => settled.push(code));
  await pass(7_100);
  expect(settled).toEqual([1502, 1501]);
  calm.close();
});

test("a request is acknowledged only if its response takes time, or if the client always expects it", async () => {
  jest.useFakeTimers();
  const calm = new DataRoom(() => 0);
  const [ann, ben] = [calm.join("ann"), calm.join("ben")];
  const seen: string[] = [];
  const receive = ann.data.requests.receive.bind(ann.data.requests);
  ann.data.requests.receive = (packet) => {
    seen.push(packet.requestAck ? "acknowledgement" : "response");
    return receive(packet);
  };
  ben.data.requests.onRequest("soon", () => "now");
  ben.data.requests.onRequest("late", () => new Promise((resolve) => setTimeout(() => resolve("later"), 2_000)));
  const pass = async (ms: number) => {
    for (let at = 0; at < ms; at += 50) {
      jest.advanceTimersByTime(50);
      for (let n = 0; n < 50; n++) await Promise.resolve();
    }
  };
  const soon = ann.data.requests.request("ben", "soon");
  await pass(3_000);
  expect([await soon, seen.splice(0)]).toEqual(["now", ["response"]]);
  const late = ann.data.requests.request("ben", "late");
  await pass(3_000);
  expect([await late, seen.splice(0)]).toEqual(["later", ["acknowledgement", "response"]]);
  // A request as a LiveKit client sends it.
  ben.data.requests.receive({ from: "ann", request: { id: "x", method: "soon", version: 1 } });
  await pass(500);
  expect(seen).toEqual(["acknowledgement", "response"]);
  calm.close();
});
