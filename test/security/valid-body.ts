import type { Operation } from "../harness/operations.ts";

const FIELDS: Record<string, unknown> = {
  name: "taken",
  title: "taken",
  text: "taken",
  filename: "f",
  mimeType: "a/b",
  size: 1,
  payload: "x",
  emoji: "👍",
  userId: "mallory",
  identity: "mallory",
  muted: true,
  layout: "grid",
  participantIdentity: "mallory",
  hostIdentity: "mallory",
  email: "m@example.com",
  url: "http://127.0.0.1:9/",
  role: "",
  environment: "",
  type: "",
  since: "2026-03-01T00:00:00.000Z",
  allowedOrigins: [],
  permissions: {},
  reason: "",
  action: "",
  level: "",
  refuse: [],
  mask: [],
  report: [],
  endpoint: "https://push.example.com/x",
  keys: {
    p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth: "BTBZMqHH6r4Tts7J_aSIgg",
  },
};

/** A body that would be taken if everything it speaks of were the caller's. */
export function bodyFor({ body }: Operation): Record<string, unknown> {
  const wanted = Object.keys(body?.properties ?? {}).filter((name) => name in FIELDS);
  const chosen = wanted.map((name) => {
    const schema = body?.properties?.[name];
    return [name, schema?.enum?.[0] ?? schema?.anyOf?.[0]?.const ?? FIELDS[name]] as const;
  });
  // One of the fields `to` is a room, and the others are lists of identities.
  if (body?.properties?.to?.type === "string") chosen.push(["to", "taken"]);
  return Object.fromEntries(chosen.filter(([name, value]) => name !== "type" || value !== ""));
}
