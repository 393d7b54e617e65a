import type { Config } from "../../../src/kernel/config/index.ts";
import { type TestServer, testServer } from "../../harness/server.ts";
import type { Answer, Body } from "./world.ts";

export type ChatRest = Awaited<ReturnType<typeof chatRest>>;

/** The application in memory with a project, and chat's routes at hand. */
export async function chatRest(overrides: Partial<Config> = {}) {
  const server = testServer(overrides);
  return chatRestOf(server, await server.project());
}

/** The same on a server that is there already. */
export function chatRestOf(server: TestServer, { projectId, key }: { projectId: string; key: string }) {
  async function ask(
    credential: string,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const reply = await server.call(method, path, { key: credential, body, headers });
    return { ...reply, body: reply.body as Body };
  }

  return {
    server,
    projectId,
    key,
    ask,
    clock: server.clock,
    close: server.close,

    /** A conversation; members are user ids, or whole. */
    async room(name: string, members: (string | Body)[] = [], input: Record<string, unknown> = {}): Promise<Body> {
      const whole = members.map((member) => (typeof member === "string" ? { userId: member } : member));
      const { status, body } = await ask(key, "POST", "/v1/chat/conversations", { name, members: whole, ...input });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body;
    },

    async token(userId: string, input: Record<string, unknown> = {}): Promise<string> {
      const { status, body } = await ask(key, "POST", "/v1/chat/tokens", { userId, ...input });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body.token;
    },

    send: (credential: string, room: string, input: Body): Promise<Answer> =>
      ask(
        credential,
        "POST",
        `/v1/chat/conversations/${room}/messages`,
        typeof input === "string" ? { text: input } : input,
      ),

    history: (credential: string, room: string, query = ""): Promise<Answer> =>
      ask(credential, "GET", `/v1/chat/conversations/${room}/messages${query}`),

    async events(room: string, after = 0): Promise<Body[]> {
      return (await ask(key, "GET", `/v1/chat/conversations/${room}/events?after=${after}&limit=200`)).body.data;
    },
  };
}

/** Status and code in one: what an error test compares. */
export function outcome({ status, body }: Answer): string {
  return `${status} ${body.code ?? ""}`.trim();
}
