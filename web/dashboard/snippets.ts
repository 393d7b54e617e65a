/** Code samples with the server's address and the key filled in. */
export const SNIPPETS = {
  curl: (origin: string, key: string) => `# a room (names are unique, hence the time in it)
ROOM=$(curl -s -X POST ${origin}/v1/rooms \\
  -H 'authorization: Bearer ${key}' \\
  -H 'content-type: application/json' \\
  -d '{"name":"hello-'$(date +%s)'"}' | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')

# a token for one participant, to be handed to a browser
curl -X POST ${origin}/v1/rooms/$ROOM/rtc-tokens \\
  -H 'authorization: Bearer ${key}' \\
  -H 'content-type: application/json' \\
  -d '{"participantIdentity":"ada","permissions":{"publish":true}}'`,

  "JavaScript, server": (origin: string, key: string) => `const call = async (path, body) => {
  const response = await fetch("${origin}/v1" + path, {
    method: "POST",
    headers: { authorization: "Bearer ${key}", "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error((await response.json()).message);
  return response.json();
};

const room = await call("/rooms", { name: "hello-" + Date.now() });
const { endpoint, token } = await call(\`/rooms/\${room.id}/rtc-tokens\`, {
  participantIdentity: "ada",
  permissions: { publish: true },
});
console.log(endpoint, token); // hand both to the browser, never the key`,

  "JavaScript, browser": (origin: string) => `import { connect } from "${origin}/sdk.js";

// endpoint and token come from your backend
const room = await connect(endpoint, token);
room.on("trackSubscribed", (track) => {
  if (track.kind === "video") document.body.append(track.attach());
});
await room.localParticipant.enableCamera();
await room.localParticipant.enableMicrophone();`,
} as const;

export type SnippetName = keyof typeof SNIPPETS;
