import { useEffect, useState } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import { ApiFailure, api, request } from "../../api.ts";
import { toApiFailure } from "../../live.ts";
import { heldInvitation, takeToken } from "../../one-time-token.ts";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { toastNote } from "../../parts/toast.tsx";
import { adoptSession, signedIn } from "../../session.ts";

const BROKEN = new ApiFailure(0, "NO_TOKEN", "This link is incomplete. Open it again from your mail.", null, []);

/** Runs one action when the page is opened and continues to the projects, or shows the error. */
function Arrival({ title, otherwise, arrive }: { title: string; otherwise: string; arrive: () => Promise<void> }) {
  const { route } = useLocation();
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  useEffect(() => {
    arrive().then(
      () => route("/", true),
      (error) => setFailure(toApiFailure(error)),
    );
  }, []);
  return (
    <SignedOutPage title={failure ? otherwise : title}>
      {failure ? (
        <>
          <div class="note bad" role="alert">
            <p>{failure.message}</p>
            {failure.requestId && <p class="mono small">{failure.requestId}</p>}
          </div>
          <a class="button" href="/">
            {signedIn.value ? "Go to your projects" : "Go to sign in"}
          </a>
        </>
      ) : (
        <div class="loading" role="status" aria-label="Loading" />
      )}
    </SignedOutPage>
  );
}

/** The page of the link that confirms an e-mail address. */
export function VerifyEmail() {
  const [token] = useState(takeToken);
  return (
    <Arrival
      title="Confirming your address"
      otherwise="This link does not work"
      arrive={async () => {
        if (token === null) throw BROKEN;
        const verified = await request(api.v1.auth["verify-email"].post({ token }));
        adoptSession(verified);
        // Someone else may have registered this address, so its owner is told how to lock them out.
        if (verified.passwordKept) {
          toastNote(
            "Your address is confirmed. The password is the one that was chosen at registration. If it was not you who registered, choose a new one: it ends every other session.",
            { href: "/password-reset", label: "Choose a new password" },
          );
        }
      }}
    />
  );
}

/** The page that a sign-in provider redirects to. */
export function OAuthCallback() {
  const { provider = "" } = useRoute().params;
  const { query } = useLocation();
  return (
    <Arrival
      title="Signing you in"
      otherwise="You are not signed in"
      arrive={async () => {
        const { code, state, iss, error, error_description: words } = query;
        // The code works only once, so it is removed from the history.
        history.replaceState(history.state, "", location.pathname);
        if (error !== undefined) throw new ApiFailure(0, error, words ?? `The provider refused: ${error}`, null, []);
        if (code === undefined || state === undefined) throw BROKEN;
        const inviteToken = heldInvitation.take();
        const body = { code, state, ...(iss && { iss }), ...(inviteToken && { inviteToken }) };
        adoptSession(await request(api.v1.auth.oauth({ provider }).exchange.post(body)));
      }}
    />
  );
}
