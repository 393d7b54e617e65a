import { expect, test } from "bun:test";
import { Elysia, type Static, t } from "elysia";
import { shapeOf, shapeResponses } from "../../../src/kernel/http/reference/response-shape.ts";

const Person = t.Object({ name: t.String(), email: t.Optional(t.String()) });
const leaky = { name: "Ada", passwordHash: "secret" };

test("a response has exactly the fields of its schema, at every depth", () => {
  const Team = t.Object({ lead: Person, deputy: t.Union([Person, t.Null()]), members: t.Array(Person) });
  const shaped = shapeOf(Team)?.({ lead: leaky, deputy: leaky, members: [leaky, leaky], passwordHash: "secret" });
  expect(shaped).toEqual({
    lead: { name: "Ada" },
    deputy: { name: "Ada" },
    members: [{ name: "Ada" }, { name: "Ada" }],
  });
});

test("null, absent fields, zero and the empty string are kept as they are", () => {
  const Row = t.Object({
    deputy: t.Union([Person, t.Null()]),
    count: t.Integer(),
    note: t.String(),
    more: t.Optional(Person),
  });
  const row = { deputy: null, count: 0, note: "" };
  expect(shapeOf(Row)?.(row)).toEqual(row);
  expect(JSON.stringify(shapeOf(Row)?.(row))).toBe(JSON.stringify(row));
});

test("scalars, and objects with any fields, are not changed", () => {
  expect(shapeOf(t.Record(t.String(), t.Unknown()))).toBeUndefined();
  expect(shapeOf(t.Array(t.String()))).toBeUndefined();
  const Holder = t.Object({ metadata: t.Record(t.String(), t.Unknown()) });
  expect(shapeOf(Holder)?.({ metadata: { a: { b: 1 } } })).toEqual({ metadata: { a: { b: 1 } } });
});

test("variants of a union differ by their type; other unions are refused when the server is built", () => {
  const Events = t.Union([
    t.Object({ type: t.Literal("came"), who: t.String() }),
    t.Object({ type: t.Literal("said"), text: t.String() }),
  ]);
  expect(shapeOf(Events)?.({ type: "said", text: "hi", who: "hidden" })).toEqual({ type: "said", text: "hi" });
  expect(() => shapeOf(t.Union([Person, t.Object({ id: t.String() })]))).toThrow("must differ by their type");
});

test("a route responds with the schema of its status, and a Response object is sent unchanged", async () => {
  const app = new Elysia({ normalize: "typebox" })
    .get("/ok", () => leaky, { response: { 200: Person } })
    .post("/made", ({ status }) => status(201, leaky as Static<typeof Person>), {
      response: { 200: t.Object({}), 201: Person },
    })
    .get("/raw", () => new Response("as it is"), { response: { 200: t.Any() } });
  shapeResponses(app);
  const ask = async (path: string, method = "GET") => app.handle(new Request(`http://localhost${path}`, { method }));
  expect(await (await ask("/ok")).json()).toEqual({ name: "Ada" });
  expect(await (await ask("/made", "POST")).json()).toEqual({ name: "Ada" });
  expect(await (await ask("/raw")).text()).toBe("as it is");
});

test("a route whose response schema has no status is refused", () => {
  const app = new Elysia().get("/", () => leaky, { response: Person });
  expect(() => shapeResponses(app)).toThrow("by their status");
});
