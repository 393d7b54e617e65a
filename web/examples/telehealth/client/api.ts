import type { Join } from "stoa/server";

/** What the server tells of a visit; the fields after the status are for the clinician. */
export type Visit = {
  id: string;
  patientName: string;
  status: "WAITING" | "OPEN" | "CLOSED";
  isRecording: boolean;
  hasReplay: boolean;
  verdicts: { name: string; sentence: string }[];
};

export type Credentials = Pick<Join, "rtc" | "chat">;

/** In the clinician's page, the part of the address after `#` is the sign-in. */
const code = location.hash.slice(1);

export async function request<T>(method: string, path: string, body?: object): Promise<T> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${code}` };
  const response = await fetch(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const answer = await response.json();
  if (!response.ok) throw new Error((answer as { message: string }).message);
  return answer as T;
}
