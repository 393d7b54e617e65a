/** `app/api/join/route.ts` of a Next.js application: only signed-in users may join the room. */
import { Stoa, StoaApiError } from "stoa/server";

export async function POST(request: Request): Promise<Response> {
  const { STOA_URL: url = "", STOA_API_KEY: apiKey = "" } = process.env;
  const user = request.headers.get("x-user"); // replace this with the user of your own session
  if (!user) return Response.json({ error: "sign in first" }, { status: 401 });
  const { room } = (await request.json()) as { room: string };
  try {
    const { rtc, chat, conversation } = await new Stoa({ url, apiKey }).mintJoin({ room, user });
    return Response.json({ rtc, chat, conversationId: conversation.id });
  } catch (error) {
    if (error instanceof StoaApiError) return Response.json({ error: error.code }, { status: error.status });
    throw error;
  }
}
