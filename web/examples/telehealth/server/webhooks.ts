import type { RequestHandler } from "express";
import { type Stoa, verifyWebhook } from "stoa/server";
import type { Visits } from "./visits.js";

/**
 * Registers this server's webhook under a new secret. The secret is shown only once: a server that keeps it, for instance
 * in its environment, registers only once.
 */
export async function register(stoa: Stoa, url: string): Promise<string> {
  for await (const webhook of stoa.webhooks.list()) {
    if (webhook.url === url) await stoa.webhooks.delete(webhook.id);
  }
  return (await stoa.webhooks.create({ url, events: ["call.ended", "recording.ready"] })).secret;
}

/** Takes the events. The body must be the bytes as they arrived: use `express.raw`. */
export function receive(stoa: Stoa, visits: Visits, secret: string): RequestHandler {
  return async (request, response) => {
    const event = await verifyWebhook(request.body, request.headers, secret).catch(() => null);
    if (!event) return void response.sendStatus(400);
    // An event may arrive twice; what follows has the same result each time.
    switch (event.type) {
      case "call.ended": {
        const visit = visits.ofRoom(event.data.roomName);
        if (visit) visits.setVerdicts(visit, await stoa.calls.get(event.data.callId));
        break;
      }
      case "recording.ready": {
        const visit = visits.ofRoom(event.data.recording.roomName);
        if (visit) visit.replayableId = event.data.recording.id;
        break;
      }
    }
    response.sendStatus(204);
  };
}
