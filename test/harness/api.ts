import type { Reply } from "./server.ts";

/** A server at an address, with the API key of a project. */
export type Api = {
  url: string;
  key: string;
  call(method: string, path: string, body?: object): Promise<Reply>;
  room(name?: string): Promise<string>;
  mint(roomId: string, participantIdentity: string, body?: object): Promise<{ token: string; tokenId: string }>;
};

export function createApi(url: string, key: string): Api {
  const call: Api["call"] = async (method, path, body) => {
    const headers = { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : {}, text };
  };
  return {
    url,
    key,
    call,
    room: async (name = crypto.randomUUID()) => String((await call("POST", "/v1/rooms", { name })).body.id),
    async mint(roomId, participantIdentity, body = {}) {
      const permissions = { publish: true, publishData: true, updateMetadata: true };
      const path = `/v1/rooms/${roomId}/rtc-tokens`;
      const reply = await call("POST", path, { participantIdentity, permissions, ...body });
      return { token: String(reply.body.token), tokenId: String(reply.body.tokenId) };
    },
  };
}
