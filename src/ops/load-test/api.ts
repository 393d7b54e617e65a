/** The server's REST API with an API key. A failed request throws an `ApiFailure`. */
type Api = (method: string, path: string, body?: object) => Promise<Record<string, unknown>>;

/** A request that the server rejected or did not receive; the message is printed on the command line. */
export class ApiFailure extends Error {
  constructor(
    message: string,
    /** The server's code, such as `SVC_CONFLICT`; null when it did not respond. */
    readonly code: string | null,
  ) {
    super(message);
  }
}

export function createApi(url: string, apiKey: string): Api {
  return async (method, path, body) => {
    const headers = { authorization: `Bearer ${apiKey}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) }).catch(
      (error: Error) => {
        throw new ApiFailure(`${url} does not answer: ${error.message}`, null);
      },
    );
    const answer = (await response.json().catch(() => ({}))) as Record<string, unknown>;
    if (response.ok) return answer;
    const code = String(answer.code ?? response.status);
    const hint = response.status === 401 ? " Check the API key: --api-key, or STOA_API_KEY." : "";
    throw new ApiFailure(`${url} answered ${code}: ${answer.message ?? response.statusText}${hint}`, code);
  };
}
