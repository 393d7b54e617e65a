import { PROGRAM, WARM_UP } from "../cli/stoa.ts";
import { Member } from "../nodes/remote/member.ts";
import { until } from "../nodes/remote/until.ts";
import type { Group } from "./group.ts";
import { untilDone } from "./load.ts";

export const NODE_NAME = "media1";
const NODE_SECRET = "a-secret-that-nodes-of-the-group-know";

/** The settings of servers in a group with media nodes. */
export const WITH_NODES = {
  SFU_REGISTRATION_SECRET: NODE_SECRET,
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "100000",
  SIGNALING_MAX_MESSAGES_PER_WINDOW: "100000",
};

/** A `stoa node` beside a group, and a call on it: Ada is seen by Ben. */
export class NodeCall {
  readonly #members: Member[] = [];

  private constructor(
    private readonly group: Group,
    readonly roomId: string,
  ) {}

  static async start(group: Group): Promise<NodeCall & { ada: Member; ben: Member }> {
    await group.balancer.found();
    await startNode(group, NODE_NAME, "eu");
    const { body } = await untilDone(() => group.call("POST", "/v1/rooms", { name: "call", region: "eu" }));
    const call = new NodeCall(group, String(body.id));
    group.whenClosed(() => call.close());
    const ada = await call.join("ada");
    await ada.publish();
    const ben = await call.join("ben");
    await ben.watch("ada");
    return Object.assign(call, { ada, ben });
  }

  async join(participantIdentity: string): Promise<Member> {
    const body = { participantIdentity, permissions: { publish: true } };
    const path = `/v1/rooms/${this.roomId}/rtc-tokens`;
    const reply = await untilDone(() => this.group.call("POST", path, body));
    const member = new Member(this.group.front, String(reply.body.token));
    this.#members.push(member);
    await member.join();
    return member;
  }

  close(): void {
    for (const member of this.#members) member.close();
  }
}

/** Resolves once the leader has connected to it. */
export async function startNode(group: Group, name: string, region: string): Promise<Bun.Subprocess> {
  const where = ["--host", "127.0.0.1", "--port", "0", "--public-ip", "127.0.0.1", "--sfu-region", region];
  const media = ["--media-udp-port", "0", "--media-workers", "1", "--sfu-node-name", name];
  const child = Bun.spawn([...PROGRAM, "node", "--control-plane", group.front, ...where, ...media], {
    env: {
      PATH: process.env.PATH ?? "",
      HOME: "/nonexistent",
      ...WARM_UP,
      SFU_REGISTRATION_SECRET: NODE_SECRET,
      LOG_LEVEL: "error",
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  group.whenClosed(() => child.kill("SIGKILL"));
  let said = "";
  for await (const chunk of child.stdout) {
    said += Buffer.from(chunk).toString();
    if (said.includes("Registered") && said.endsWith("\n")) break;
  }
  const url = /reaches this node at (\S+)/.exec(said)?.[1];
  if (url === undefined) throw new Error(`the node does not say where it is: ${said}`);
  await until(async () => (await fetch(`${url}/readyz`, { keepalive: false })).status === 200);
  return child;
}
