import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import type { FleetService, Heartbeat, RegisterServer } from "./fleet.ts";

/** Whom a media node reports to. Each answers with the HTTP status of the node routes. */
export type ControlPlane = {
  register(registration: RegisterServer, signal: AbortSignal): Promise<number>;
  beat(name: string, heartbeat: Heartbeat, signal: AbortSignal): Promise<number>;
};

type HttpOptions = {
  /** Where the control plane is reached, and the secret that opens its node routes. */
  url: string;
  secret: string;
  fetch: typeof fetch;
};

/** That of a node on another machine. */
export function controlPlaneAt({ url, secret, fetch }: HttpOptions): ControlPlane {
  async function call(method: string, path: string, body: object, signal: AbortSignal): Promise<number> {
    const response = await fetch(`${url}/v1/rtc/servers/${path}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
      // A connection kept open to a server that stops would hold it up.
      keepalive: false,
    });
    await response.body?.cancel();
    return response.status;
  }

  return {
    register: (registration, signal) => call("POST", "register", registration, signal),
    beat: (name, heartbeat, signal) => call("PUT", `${encodeURIComponent(name)}/heartbeat`, heartbeat, signal),
  };
}

/** That of the node inside this process, which a server that starts need not ask by a request to itself. */
export function ownControlPlane(write: Runtime["write"], fleet: FleetService): ControlPlane {
  const statusOf = (written: Promise<unknown>) =>
    written.then(
      () => 200,
      (error) => {
        if (error instanceof ApiError) return error.status;
        throw error;
      },
    );
  return {
    register: (registration) => statusOf(write((unit) => fleet.register(unit, registration))),
    beat: (name, heartbeat) => statusOf(write((unit) => fleet.beat(unit, name, heartbeat))),
  };
}
