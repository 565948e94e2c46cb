"""Plan a question to a reasoner: find its files, settle its text and parameters."""

from cosmos_batch.catalogue.formats import medium_of
from cosmos_batch.contract.environment import PlanningEnvironment
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import document_key
from cosmos_batch.planning.questions import (
    parameters_of,
    refuse_cut_of_image,
    refuse_unseen_files,
    settle_question,
)
from lambdas.long_texts import keep_if_long, question_location, words_location
from lambdas.planning.inputs import inspect_inputs, read_prompt
from lambdas.planning.work import Work


def plan_question(request: Request, job_id: str, environment: PlanningEnvironment, engine: str) -> Work:
    """Return the question and its files. Raises Failure, also where the pipeline's engine cannot look at the files.

    Texts that are too long for a message are written to the state bucket.
    """
    roots, bucket = environment.asset_buckets, environment.state_bucket
    parameters = parameters_of(request)
    file, *more = inspect_inputs(request, parameters.more_inputs or [], roots)
    refuse_unseen_files(engine, file.uri, [other.uri for other in more])
    medium = medium_of(file.key, *(other.key for other in more))
    refuse_cut_of_image(parameters, medium)
    prompt = read_prompt(request, job_id, bucket, roots)
    question = settle_question(parameters, prompt, request.system_prompt, medium)
    text, text_uri = keep_if_long(question.text, question_location(bucket, job_id))
    other_words = None if question.caller_words == question.text else question.caller_words
    words, words_uri = keep_if_long(other_words, words_location(bucket, job_id))
    return Work(
        input=file,
        output=request.output,
        document_key=lambda directory, timestamp: document_key(directory, file.name, timestamp),
        fields={
            "more_inputs": more,
            "prompt": text,
            "prompt_uri": text_uri,
            "user_prompt": words,
            "user_prompt_uri": words_uri,
            "system_prompt": question.system_prompt,
            "parameters": question.parameters,
        },
    )
