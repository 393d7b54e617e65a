import { iceServersFor } from "../rooms/ice-servers.ts";
import { type Check, type Examination, fail, pass, reasonOf } from "./check.ts";
import { allocateRelay, turnTarget } from "./turn-client.ts";

const NAME = "turn";

/** With the very credentials that a client would get. */
export const examineTurn: Examination = async ({ config, now }) => {
  const [server] = iceServersFor(config, "doctor", now + 60_000);
  if (!server) return [pass(NAME, "none: clients reach the media ports by UDP or TCP")];
  const { urls, username = "", credential = "" } = server;
  return Promise.all(
    [urls].flat().map(async (url): Promise<Check> => {
      try {
        return pass(NAME, `${url} gives a relay: ${await allocateRelay(turnTarget(url), username, credential)}`);
      } catch (error) {
        const remedy = "Compare TURN_SECRET with static-auth-secret, and let the TURN server's ports in.";
        return fail(NAME, `${url}: ${reasonOf(error)}`, remedy);
      }
    }),
  );
};
