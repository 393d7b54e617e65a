/** The server's REST API by an API key; a refusal is an error with the code as its message. */
export type Api = (method: string, path: string, body?: object) => Promise<Record<string, unknown>>;

export function createApi(url: string, apiKey: string): Api {
  return async (method, path, body) => {
    const headers = { authorization: `Bearer ${apiKey}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    const answer = (await response.json().catch(() => ({}))) as Record<string, unknown>;
    if (!response.ok) throw new Error(String(answer.code ?? response.status));
    return answer;
  };
}
