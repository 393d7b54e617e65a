import { lazy, Route, Router } from "preact-iso";
import { Shell } from "./parts/shell.tsx";
import { sessionKnown, signedIn } from "./session.ts";

const SignIn = lazy(() => import("./pages/sign-in.tsx").then((page) => page.SignIn));
const Welcome = lazy(() => import("./pages/welcome.tsx").then((page) => page.Welcome));
const ApiKeys = lazy(() => import("./pages/api-keys.tsx").then((page) => page.ApiKeys));

/** The table of contents of the dashboard. A page is loaded when it is first opened. */
export function Pages() {
  if (!sessionKnown.value) return <div class="loading" role="status" aria-label="Loading" />;
  if (!signedIn.value) return <SignIn />;
  return (
    <Shell>
      <Router>
        <Route path="/" component={Welcome} />
        <Route path="/projects/:projectId/api-keys" component={ApiKeys} />
        <Route default component={NotFound} />
      </Router>
    </Shell>
  );
}

function NotFound() {
  return (
    <div class="empty">
      <p>There is no such page.</p>
      <a href="/">Go to your projects</a>
    </div>
  );
}
