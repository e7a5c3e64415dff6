"""Files from outside: conversion to text and git repositories."""
