import { afterAll, expect, test } from "bun:test";
import { chatRest } from "../features/chat/rest.ts";

const chat = await chatRest();
afterAll(() => chat.close());

test("[contract 16] a token without chat:read lists neither conversations nor unread messages", async () => {
  await chat.room("secret-project", ["alice"]);
  const blind = await chat.token("alice", { scopes: ["chat:send"] });
  const seeing = await chat.token("alice", { scopes: ["chat:read"] });
  for (const path of ["/v1/chat/conversations", "/v1/chat/unread", "/v1/chat/conversations/secret-project"]) {
    const { status, body, text } = await chat.ask(blind, "GET", path);
    expect([path, status, body.code]).toEqual([path, 403, "SVC_PERMISSION_DENIED"]);
    expect(text).not.toContain("conv_");
    expect((await chat.ask(seeing, "GET", path)).status).toBe(200);
    expect((await chat.ask(chat.key, "GET", `${path}?userId=alice`)).status).toBe(200);
  }
});
