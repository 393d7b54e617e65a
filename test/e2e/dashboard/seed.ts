/** Fills a project with the data of a busy day. */
import type { Page } from "playwright-core";
import type { Access } from "../../../src/features/chat/access.ts";
import type { Stage } from "./stage.ts";

export type Seeded = {
  roomId: string;
  streamId: string;
  conversationId: string;
  webhookId: string;
  deliveryId: string;
  connectionId: string;
  pages: Page[];
  /** The delivery to the failing endpoint. */
  received: string[];
  close(): Promise<void>;
};

const MESSAGES = 2_000;

export async function seed(stage: Stage): Promise<Seeded> {
  const { server } = stage;
  const { runtime, services, projectId } = server;
  const tenant = { projectId, environment: "DEVELOPMENT" as const };
  const received: string[] = [];
  const failing = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      received.push(await request.text());
      return new Response("no", { status: 500 });
    },
  });

  const webhook = await runtime.write((unit) =>
    services.webhooks.create(
      unit,
      projectId,
      {
        url: `http://127.0.0.1:${failing.port}/hook`,
        environment: "DEVELOPMENT",
        description: "Tells the billing service when a host goes on air",
        events: ["live_stream.created"],
      },
      { actor: null, request: null, environment: "DEVELOPMENT" },
    ),
  );
  const conversation = await runtime.write((unit) =>
    services.chat.conversations.create(unit, tenant, {
      name: "support",
      members: [{ userId: "ada", role: "ADMIN" }, { userId: "grace" }],
    }),
  );
  for (let sent = 0; sent < MESSAGES; sent += 500) {
    await runtime.write((unit) => {
      const access: Access = { kind: "server", conversation, userId: null, member: null };
      for (let index = 0; index < 500; index++) {
        services.chat.messages.send(unit, access, {
          text: "never to be seen",
          senderId: index % 2 ? "ada" : "grace",
        });
      }
    });
  }
  await runtime.write((unit) => {
    const access: Access = { kind: "server", conversation, userId: null, member: null };
    const { message } = services.chat.messages.send(unit, access, {
      text: "Cheap watches at https://watches.example, ask me for the code",
      senderId: "grace",
    });
    const row = services.chat.messages.store.find(message.id);
    const report = { reason: "spam", note: "The third time this week" } as const;
    if (row) services.chat.reports.report(unit, { access, message: row }, "ada", report);
    const words = { refuse: ["some slur"], mask: ["damn"], report: ["meet me"] };
    const author = { actor: null, request: null, environment: tenant.environment };
    services.chat.wordLists.put(unit, tenant, words, author);
  });
  const stream = await runtime.write((unit) => {
    const created = services.liveStreams.streams.create(unit, tenant, {
      title: "Friday concert",
      hostIdentity: "grace",
      description: "Chamber music from the town hall, with an interval at half past eight.",
      tags: ["music", "live"],
      category: "Concerts",
      language: "en",
    });
    return services.liveStreams.streams.start(unit, { ...tenant, streamId: created.publicId });
  });
  const roomId = await server.room("standup");
  const pages = await Promise.all(["ada", "grace"].map((identity) => participant(stage, roomId, identity)));
  const { id: connectionId } = await connectionOf(stage);
  const deliveryId = await deliveryOf(stage, webhook.id);
  return {
    roomId,
    streamId: stream.publicId,
    conversationId: conversation.publicId,
    webhookId: webhook.id,
    deliveryId,
    connectionId,
    pages,
    received,
    async close() {
      await failing.stop(true);
    },
  };
}

/** Joins the room in a browser with a fake camera, using the SDK. */
export async function participant(
  stage: Stage,
  roomId: string,
  identity: string,
  { metadata = `{"team":"${identity}"}`, userAgent }: { metadata?: string; userAgent?: string } = {},
): Promise<Page> {
  const { server, browser } = stage;
  const { token } = await server.mint(roomId, identity, { metadata });
  const page = await (await browser.newContext({ permissions: ["camera", "microphone"], userAgent })).newPage();
  await page.goto(`${server.url}/healthz`);
  await page.evaluate(
    async ([endpoint = "", credential = ""]) => {
      const sdk = (await import(`${location.origin}/sdk.js`)) as typeof import("../../../web/sdk/index.ts");
      const room = await sdk.connect(endpoint, credential);
      await room.localParticipant.enableCamera({ width: 320, height: 180, frameRate: 5 });
      await room.localParticipant.enableMicrophone();
    },
    [`${server.url.replace("http", "ws")}/v1/rtc`, token],
  );
  return page;
}

async function connectionOf({ server }: Stage): Promise<{ id: string }> {
  for (;;) {
    await server.services.rtcSessions.recorder.flush();
    const { text } = await server.call("GET", "/v1/connections?state=CONNECTED");
    const [first] = JSON.parse(text) as { id: string }[];
    if (first) return first;
    await Bun.sleep(50);
  }
}

async function deliveryOf({ server }: Stage, webhookId: string): Promise<string> {
  for (;;) {
    const [first] = server.services.deliveries.list(webhookId, undefined, "~", 1);
    if (first && first.attemptCount > 0) return first.id;
    await Bun.sleep(50);
  }
}
