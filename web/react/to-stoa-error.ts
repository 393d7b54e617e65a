import { StoaError } from "../sdk/index.ts";

export function toStoaError(error: unknown): StoaError {
  return error instanceof StoaError ? error : new StoaError("CLIENT_ERROR", "server", String(error), { cause: error });
}
