import { afterAll, expect, test } from "bun:test";
import { fillPath, operationsOf } from "../../harness/operations.ts";
import { testServer } from "../../harness/server.ts";
import { budgets } from "./unlimited.ts";

const server = testServer({ ...budgets(1), REGISTRATION: "open" });
afterAll(server.close);

const LIMITED = (await operationsOf(server)).filter(({ responses }) => responses.has(429));

test("[8] every route that responds with 429 documents it, and at least 16 do", async () => {
  const { key } = await server.project();
  const credentials = { apiKey: key, session: (await server.session({ operator: true })).token };
  for (const operation of await operationsOf(server)) {
    const [kind] = operation.credentials;
    const credential = kind === "apiKey" || kind === "session" ? credentials[kind] : undefined;
    const ask = () =>
      server.call(
        operation.method,
        fillPath(operation, () => "x"),
        { key: credential },
      );
    const answers = [await ask(), await ask(), await ask()].map(({ status }) => status);
    if (answers.includes(429)) expect([operation.name, operation.responses.has(429)]).toEqual([operation.name, true]);
  }
  expect(LIMITED.length).toBeGreaterThanOrEqual(16);
});
