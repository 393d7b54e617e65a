import { computed, signal } from "@preact/signals";

type SignedInUser = {
  id: string;
  email: string;
  name: string | null;
  emailVerified: boolean;
  isOperator: boolean;
  createdAt: string;
};

/** The token is kept in memory only; a reload renews it with the refresh cookie, which scripts cannot read. */
export const accessToken = signal<string | null>(null);
export const user = signal<SignedInUser | null>(null);
/** Whether the first renewal has been tried, so that it is known whether the user is signed in. */
export const sessionKnown = signal(false);
/** A second factor that must be shown or set up before the server does anything else. */
export const missingFactor = signal<"verify" | "setup" | null>(null);
export const signedIn = computed(() => user.value !== null && missingFactor.value === null);

type SessionAnswer = { user: SignedInUser; accessToken?: string; secondFactor?: "verify" | "setup" | null };

export function adoptSession(answer: SessionAnswer): void {
  accessToken.value = answer.accessToken ?? null;
  missingFactor.value = answer.secondFactor ?? null;
  user.value = answer.accessToken === undefined ? null : answer.user;
}

let renewing: Promise<boolean> | null = null;

/** Renews one at a time across all tabs: the refresh token rotates, and using an old one ends the session. */
export function renewSession(): Promise<boolean> {
  renewing ??= (navigator.locks ? navigator.locks.request("stoa-refresh", renew) : renew()).finally(() => {
    renewing = null;
  });
  return renewing;
}

async function renew(): Promise<boolean> {
  const response = await fetch("/v1/auth/refresh", { method: "POST" }).catch(() => null);
  if (response?.ok) adoptSession((await response.json()) as SessionAnswer);
  // A failing server or proxy does not mean that the session has ended.
  else if (response && response.status < 500) {
    accessToken.value = null;
    user.value = null;
  }
  sessionKnown.value = true;
  return response?.ok ?? false;
}

export async function signOut(): Promise<void> {
  await fetch("/v1/auth/logout", {
    method: "POST",
    headers: accessToken.value === null ? {} : { authorization: `Bearer ${accessToken.value}` },
  });
  accessToken.value = null;
  missingFactor.value = null;
  user.value = null;
}
