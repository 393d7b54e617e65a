/** Sections of the guides that are generated from the schemas of the server, so that they are never outdated. */
import type { TObject, TSchema } from "@sinclair/typebox";
import { documentConfig } from "../../kernel/config/document.ts";
import { exampleOf, exampleOfEvent } from "../../kernel/http/reference/examples.ts";
import { ChatClientFrames } from "../../protocol/chat.ts";
import { ChatEvents } from "../../protocol/chat-events.ts";
import { ChatConnected, ChatPersonal, ChatSignals, TokenExpiring } from "../../protocol/chat-server-frames.ts";
import { ClientFrames, Pushes } from "../../protocol/signaling.ts";
import { WEBHOOK_MEANINGS, WebhookPayloads } from "../../protocol/webhook-payloads.ts";

const GENERATED: Record<string, () => string> = {
  configuration: documentConfig,
  "webhook events": webhookEvents,
  "rtc requests": () => frames(ClientFrames),
  "rtc pushes": () => frames(Pushes),
  "chat requests": () => frames(ChatClientFrames),
  "chat events": () => frames(ChatEvents),
  "chat signals": () =>
    frames({ connected: ChatConnected, ...ChatSignals, ...ChatPersonal, "token.expiring": TokenExpiring }),
};

/** Replaces marks such as `<!-- generated: configuration -->`. */
export function expandGenerated(source: string): string {
  return source.replace(/^<!-- generated: (.+) -->$/gm, (_, name: string) => {
    const generate = GENERATED[name];
    if (generate === undefined) throw new Error(`there is no generated part "${name}"`);
    return generate();
  });
}

function webhookEvents(): string {
  const entries = Object.entries(WebhookPayloads).map(([type, schema]) => {
    const meaning = WEBHOOK_MEANINGS[type as keyof typeof WebhookPayloads];
    return `### \`${type}\`\n\n${meaning}. \`data\`:\n\n${block(exampleOfEvent(type, schema, () => ({})))}`;
  });
  return entries.join("\n\n");
}

function frames(schemas: Record<string, TObject>): string {
  return Object.entries(schemas)
    .map(([type, schema]) => `### \`${type}\`\n\n${example(schema)}\n\n${fields(schema)}`.trimEnd())
    .join("\n\n");
}

const example = (schema: TSchema) => block(exampleOf(schema, () => ({})));

const block = (value: unknown) => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;

function fields({ properties, required = [] }: TObject): string {
  const optional = Object.keys(properties).filter((name) => !required.includes(name));
  return optional.length === 0 ? "" : `Optional: ${optional.map((name) => `\`${name}\``).join(", ")}.`;
}
