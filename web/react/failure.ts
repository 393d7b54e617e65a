import { StoaError } from "../sdk/index.ts";

export function asError(error: unknown): StoaError {
  return error instanceof StoaError ? error : new StoaError("CLIENT_ERROR", "server", String(error), { cause: error });
}
