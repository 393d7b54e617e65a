import { expect, test } from "bun:test";
import { missingText } from "../../../web/embed/missing-attributes.tsx";

test("an element names only the attributes that it lacks", () => {
  const all = { endpoint: "wss://x", token: "t", room: "r", stream: "s" };
  expect(missingText("stoa-live", all)).toBeNull();
  expect(missingText("stoa-live", { ...all, room: null })).toBe(
    "<stoa-live> needs the attribute room. Your backend mints its value.",
  );
  expect(missingText("stoa-live", { ...all, token: "", room: null, stream: null })).toBe(
    "<stoa-live> needs the attributes token, room and stream. Your backend mints their values.",
  );
});
