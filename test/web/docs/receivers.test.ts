import { expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import { BODY, checkReceiver, SECRET } from "./receiver.ts";

const LANGUAGES: [string, string][] = [
  ["receiver.mjs", "node"],
  ["receiver.py", "python3"],
];

test.each(LANGUAGES)("the guide's %s accepts only recent requests with a valid signature", async (file, program) => {
  await checkReceiver(file, [program, file]);
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
