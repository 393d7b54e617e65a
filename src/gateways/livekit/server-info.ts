import { ServerInfo } from "@livekit/protocol";
import { VERSION } from "../../kernel/version.ts";

/** The version whose words we speak: clients look at it before they use some of their own. */
export const SPOKEN_VERSION = "1.9.2";
const SPOKEN_PROTOCOL = 16;
const AGENT_PROTOCOL = 1;

export const serverInfo = (region: string) =>
  new ServerInfo({
    ...{ version: SPOKEN_VERSION, protocol: SPOKEN_PROTOCOL, agentProtocol: AGENT_PROTOCOL, region },
    nodeId: "stoa",
    debugInfo: `stoa ${VERSION}`,
  });
