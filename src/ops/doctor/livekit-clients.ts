import { NO_TOKEN } from "../../gateways/livekit/refusals.ts";
import { type Check, type CheckContext, pass, reasonOf, TIMEOUT_MS, warn } from "./check.ts";
import { loopbackOf } from "./ports.ts";

/** A client without a token is refused with a sentence of the door's: whoever hears it has reached the door. */
export async function checkLivekitClients({ config, running }: CheckContext): Promise<Check> {
  const name = "livekit-clients";
  if (config.LIVEKIT_CLIENTS === "off") return pass(name, "closed by LIVEKIT_CLIENTS=off");
  const base = config.PUBLIC_URL ?? (running ? loopbackOf(running.url) : undefined);
  if (base === undefined) return warn(name, "no server is running", "Start it and run `stoa doctor` again.");
  const url = `${base.replace(/\/$/, "")}/rtc/v1/validate`;
  const rejectUnauthorized = config.PUBLIC_URL !== undefined;
  const options = {
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
    tls: { rejectUnauthorized },
  } as const;
  const found = await fetch(url, options).then(
    async (answer) => `${answer.status} ${(await answer.text()).slice(0, 60)}`,
    reasonOf,
  );
  if (found.includes(NO_TOKEN)) return pass(name, `${base} lets LiveKit's clients in`);
  return warn(
    name,
    `${url} answers: ${found.split("\n", 1)[0]}`,
    "LiveKit's SDKs need /rtc, /agent and /twirp at the root of the address: let the proxy pass them on, or set LIVEKIT_CLIENTS=off.",
  );
}
