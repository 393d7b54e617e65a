import { afterAll, beforeAll } from "bun:test";
import { type RunningStoa, startStoa } from "../../src/cli/start/start-stoa.ts";
import { join, type Participant } from "../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../web/sdk/server.ts";

/** A server for the tests of one file, and their participants, who leave when the file ends. */
export function participantStage() {
  const open: Participant[] = [];
  let server: RunningStoa;
  let stoa: Stoa;
  beforeAll(async () => {
    server = await startStoa();
    stoa = new Stoa(server);
  }, 60_000);
  afterAll(async () => {
    for (const participant of open) await participant.close();
    await server?.stop();
  }, 60_000);

  return {
    open,
    get server() {
      return server;
    },
    get stoa() {
      return stoa;
    },
    async enter(room: string, user: string, options: Parameters<typeof join>[2] = {}): Promise<Participant> {
      const { rtc } = await stoa.mintJoin({ room, user });
      const participant = await join(rtc.endpoint, rtc.token, options);
      open.push(participant);
      return participant;
    },
  };
}
